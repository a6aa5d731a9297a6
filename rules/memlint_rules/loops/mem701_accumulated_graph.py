"""A sum of losses that keeps the graph of every step."""

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
    facts.Graph.SPENT: "keeps the graph of every step, thousands of nodes each, for the whole loop",
    facts.Graph.WHOLE: "keeps the graphs of all batches, with the activations of all layers: "
    "nothing runs backward and frees them",
}
_WAITING = (
    "holds the graphs of all turns until one backward pass behind the loop, with the activations "
    "of all layers"
)
_AT_ONCE = "Run backward in each turn, with its share of the loss: the gradients add up"


def check(script: Script) -> Iterator[Finding]:
    if not script.imports_package("torch", "transformers", "accelerate", "lightning"):
        return
    for each in facts.sums_of(script):
        if facts.waits_for_backward(script, each.target, each.addend, each.loop):
            message = f"`{each.target}` {_WAITING}"
            yield Finding(script.span(each.statement), message, advise(_AT_ONCE), Level.WASTE)
            continue
        graph = script.graph_of(each.addend, each.loop)
        if graph is None:
            continue
        reach = facts.reach_of_sum(script, each, graph)
        if reach is not facts.Reach.BACKWARD and (
            graph is facts.Graph.WHOLE or reach is not facts.Reach.UNSEEN
        ):
            yield Finding(
                script.span(each.statement),
                f"`{each.target}` adds up tensors with their graphs: it {_COSTS[graph]}",
                _fix(script, each, unsafe=reach is not facts.Reach.READ),
            )


def _fix(script: Script, each: facts.Sum, *, unsafe: bool) -> Fix:
    detached = edits.method_of(script, each.addend, "detach")
    if script.is_sometimes_tensor(each.addend):
        return advise(f"Add `{detached}` where it is a tensor")
    edit = edits.ReplaceExpression(script.span(each.addend), detached)
    return fix(f"Add `{detached}`", (edit,), unsafe=unsafe)


RULE = Rule(
    level=Level.ERROR,
    summary="a sum of losses that keeps the graph of every step",
    check=check,
    skips=(Skip.TESTS,),
    triggers=(frozenset({"+=", " + ", ".update(", ".add("}), triggers.PASSES),
)
