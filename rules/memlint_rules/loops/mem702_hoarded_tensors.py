"""Tensors of every batch kept in a list, with their graphs or as large as the logits."""

import ast
from collections.abc import Iterator

from memlint.rule import (
    Finding,
    Fix,
    Level,
    Rule,
    Script,
    Skip,
    advise,
    edits,
    facts,
    fix,
    triggers,
)

_COSTS = {
    facts.Graph.SPENT: "the graph of every step stays, thousands of nodes each",
    facts.Graph.WHOLE: "the graphs of all batches stay, with the activations of all layers",
}
_LARGE = {
    facts.Role.LOGITS: "logits over the vocabulary",
    facts.Role.LOG_PROBABILITIES: "log-probabilities over the vocabulary",
    facts.Role.PROBABILITIES: "probabilities over the vocabulary",
    facts.Role.HIDDEN_STATES: "hidden states of all positions",
    facts.Role.ATTENTIONS: "attention weights",
}
_AT_ONCE = "Run backward in each turn, with its share of the loss: the gradients add up"
_MOVES = ("cpu", "numpy", "to", "tolist")


def check(script: Script) -> Iterator[Finding]:
    if not script.imports_package("torch", "transformers", "accelerate", "lightning"):
        return
    for hoard in facts.hoards_of(script):
        if facts.waits_for_backward(script, hoard.container, hoard.value, hoard.loop):
            kept = f"`{hoard.container}` keeps `{script.text(hoard.value)}`"
            message = f"{kept} until one backward pass behind the loop: {_COSTS[facts.Graph.WHOLE]}"
            yield Finding(script.span(hoard.value), message, advise(_AT_ONCE), Level.WASTE)
            continue
        graph = script.graph_of(hoard.value, hoard.loop)
        if graph is not None:
            reach = facts.reach_of_hoard(script, hoard, graph)
            if reach is facts.Reach.BACKWARD or (
                graph is facts.Graph.SPENT and reach is facts.Reach.UNSEEN
            ):
                continue
            message = _COSTS[graph]
            repair = _change(script, hoard, "detach", unsafe=reach is not facts.Reach.READ)
        elif (large := _large(script, hoard)) is not None:
            message = f"{large} of all batches stay on the GPU"
            repair = _change(script, hoard, "cpu", unsafe=True)
        else:
            continue
        kept = script.text(hoard.value)
        yield Finding(
            script.span(hoard.value), f"`{hoard.container}` keeps `{kept}`: {message}", repair
        )


def _large(script: Script, hoard: facts.Hoard) -> str | None:
    """What is kept, where it certainly is as large as the logits or hidden states of a batch."""
    tensors = script.tensors(hoard.value)
    if not tensors or not script.on_gpu:
        return None
    if any(_is_of_a_turn(script, hoard, tensor) for tensor in tensors):
        return None
    names = {_LARGE.get(one.role) if _is_large(script, one) else None for one in tensors}
    return names.pop() if len(names) == 1 else None


def _is_of_a_turn(script: Script, hoard: facts.Hoard, tensor: facts.Tensor) -> bool:
    """True if a list holds parts of what one forward pass gives, and begins anew with the next, or
    with each call of the function that fills it."""
    forward, made = facts.forward_of(script, tensor), tensor.forward
    if forward is None or made is None or hoard.loop in made.loops:
        return False
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    home = script.enclosing(hoard.call, *functions)
    stores = script.stores.get(hoard.container, ())
    if script.enclosing(forward.node, *functions) is not home:
        return any(script.enclosing(store, *functions) is home is not None for store in stores)
    loops = script.flow.loops_around(forward.node)
    return not loops or any(loops[0] in script.flow.loops_around(store) for store in stores)


def _is_large(script: Script, tensor: facts.Tensor) -> bool:
    forward = facts.forward_of(script, tensor)
    if forward is None or forward.gradients is not False or forward.in_training_loop:
        return False
    if tensor.passes(*_MOVES):
        return False
    if tensor.role in (facts.Role.HIDDEN_STATES, facts.Role.ATTENTIONS):
        return tensor.positions is facts.Positions.ALL
    return tensor.as_large_as_logits and facts.is_vocabulary_wide(script, tensor) is True


def _change(script: Script, hoard: facts.Hoard, method: str, *, unsafe: bool) -> Fix:
    changed = edits.method_of(script, hoard.value, method)
    if script.is_sometimes_tensor(hoard.value):
        return advise(f"Keep `{changed}` where it is a tensor")
    edit = edits.ReplaceExpression(script.span(hoard.value), changed)
    return fix(f"Keep `{changed}`", (edit,), unsafe=unsafe)


RULE = Rule(
    level=Level.ERROR,
    summary="tensors of every batch kept in a list, on the GPU or with their graphs",
    check=check,
    skips=(Skip.OFF_CUDA, Skip.TESTS),
    triggers=(frozenset({".append("}), triggers.PASSES),
)
