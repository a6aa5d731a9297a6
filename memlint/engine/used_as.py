"""Which calls are of models, by what a file does with them: a name says nothing.

A call is a model's where its file asks the callee for what modules alone have (its parameters, its
mode), or reads logits of what comes back, or gives it a language model's inputs and reads the loss.
"""

from __future__ import annotations

import ast
from functools import lru_cache

from memlint.engine.nodes import walk

# Methods that only modules have.
_OF_MODULES = frozenset(
    {
        *("parameters", "named_parameters", "named_modules", "zero_grad", "requires_grad_"),
        *("gradient_checkpointing_enable", "gradient_checkpointing_disable", "save_pretrained"),
        *("get_input_embeddings", "get_output_embeddings", "resize_token_embeddings"),
        *("load_state_dict", "print_trainable_parameters", "no_sync", "train", "eval"),
    }
)
_SPEAKING = frozenset({ast.Assign, ast.Attribute, ast.Call})
_INPUTS = frozenset({"input_ids", "inputs_embeds", "attention_mask", "labels", None})


@lru_cache(maxsize=64)  # the files of one script: trees are large
def calls_of_models(tree: ast.Module) -> frozenset[ast.Call]:
    """Return the calls in a file whose callee is used as a model."""
    modules: set[str] = set()
    results: dict[str, set[str]] = {"logits": set(), "loss": set()}
    found: set[ast.Call] = set()
    calls: list[tuple[ast.Call, str]] = []
    for node in filter(_can_tell, walk([tree])):
        match node:
            case ast.Call(func=ast.Attribute(value=holder, attr=method)) if method in _OF_MODULES:
                modules.add(_key(holder))
            case ast.Attribute(value=ast.Call() as call, attr=field) if field in results:
                if field == "logits" or _gets_inputs(call):
                    found.add(call)
            case ast.Attribute(value=holder, attr=field) if field in results:
                results[field].add(_key(holder))
            case ast.Assign(targets=[target], value=ast.Call() as call):
                calls.append((call, _key(target)))
        if isinstance(node, ast.Call):
            calls.append((node, ""))
    modules.discard("")
    for call, name in calls:
        if _key(call.func).removesuffix(".forward") in modules or (
            name and (name in results["logits"] or (name in results["loss"] and _gets_inputs(call)))
        ):
            found.add(call)
    return frozenset(found)


def _can_tell(node: ast.AST) -> bool:
    return node.__class__ in _SPEAKING


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
