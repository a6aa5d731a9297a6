"""Which calls are of models, by what a file does with them: a name says nothing.

A call is a model's where its file asks the callee for what modules alone have (its parameters, its
mode), or reads logits of what comes back, or gives it a language model's inputs and reads the loss.
"""

import ast
from collections.abc import Iterator
from functools import lru_cache

from memlint.engine.nodes import NodesByKind, indexed

# Methods that only modules have.
_OF_MODULES = frozenset(
    {
        *("parameters", "named_parameters", "named_modules", "zero_grad", "requires_grad_"),
        *("gradient_checkpointing_enable", "gradient_checkpointing_disable", "save_pretrained"),
        *("get_input_embeddings", "get_output_embeddings", "resize_token_embeddings"),
        *("load_state_dict", "print_trainable_parameters", "no_sync", "train", "eval"),
    }
)
_INPUTS = frozenset({"input_ids", "inputs_embeds", "attention_mask", "labels", None})


@lru_cache(maxsize=256)  # the other files of some scripts: trees are large
def calls_elsewhere(tree: ast.Module) -> frozenset[ast.Call]:
    """Return the calls of models in another file."""
    return calls_of_models(indexed(tree)[1])


def calls_of_models(nodes: NodesByKind) -> frozenset[ast.Call]:
    """Return the calls in a file whose callee is used as a model. nodes: those of the file."""
    modules = _used_as_modules(nodes)
    read: dict[str, set[str]] = {"logits": set(), "loss": set()}
    found: set[ast.Call] = set()
    for node in nodes[ast.Attribute]:
        match node:
            case ast.Attribute(value=ast.Call() as call, attr="logits" | "loss" as field):
                if field == "logits" or _gets_inputs(call):
                    found.add(call)
            case ast.Attribute(value=holder, attr="logits" | "loss" as field):
                read[field].add(_key(holder))
    for call, name in _named_calls(nodes):
        is_read = name in read["logits"] or (name in read["loss"] and _gets_inputs(call))
        if _key(call.func).removesuffix(".forward") in modules or (name and is_read):
            found.add(call)
    return frozenset(found)


def _used_as_modules(nodes: NodesByKind) -> set[str]:
    """Return what a file asks for what modules alone have, as it is written."""
    found = {
        _key(node.func.value)
        for node in nodes[ast.Call]
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        if node.func.attr in _OF_MODULES
    }
    return found - {""}


def _named_calls(nodes: NodesByKind) -> Iterator[tuple[ast.Call, str]]:
    """Yield the calls, and what an assignment calls their results."""
    for node in nodes[ast.Call]:
        assert isinstance(node, ast.Call)
        yield node, ""
    for node in nodes[ast.Assign]:
        match node:
            case ast.Assign(targets=[target], value=ast.Call() as call):
                yield call, _key(target)


def _gets_inputs(call: ast.Call) -> bool:
    """True if a call gets a language model's inputs, by their names or as an open dict."""
    return any(keyword.arg in _INPUTS for keyword in call.keywords)


def _key(node: ast.AST) -> str:
    """``self.model``; empty for what is no name and no attribute of one."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""
