"""A graph kept after the only backward pass that runs through it."""

from collections.abc import Iterator

from memlint.rule import Call, Finding, Fix, Rule, Script, Skip, advise, edits, facts, fix

# What takes a derivative a second time, or names a graph that is shared.
_DERIVATIVES = ("autograd.grad", "create_graph", "double_backward", "torch.func", "functorch")


def check(script: Script) -> Iterator[Finding]:
    if script.may_use(*_DERIVATIVES):
        return
    for step in script.steps:
        # A turn that reads what the one before it computed may need that graph.
        starts_anew = step.all_forwards and not script.flow.carried(step.node)
        if len(step.backwards) != 1 or not starts_anew:
            continue
        (call,) = step.backwards
        keyword = call.keyword_node("retain_graph")
        if keyword is None or script.text(keyword.value) != "True":
            continue
        reach = facts.reach_of_graph(script, step, call)
        if reach < facts.Reach.UNSEEN:
            yield Finding(
                script.span(keyword.value),
                "`retain_graph=True` with one backward pass a step: the activations of all layers "
                "stay through the next forward pass",
                _fix(script, step, call, unsafe=reach is not facts.Reach.READ),
            )


def _fix(script: Script, step: facts.Step, call: Call, *, unsafe: bool) -> Fix:
    """Safe where all of the loss comes from the step's forward passes: what was computed before the
    loop would be freed with the first turn."""
    if not all(facts.comes_from(script, step, start) for start in facts.starts_of(call.node)):
        return advise("Remove `retain_graph`, unless a part of the graph is older than the step")
    edit = edits.RemoveKeyword(call.span, "retain_graph")
    return fix("Remove `retain_graph`", (edit,), unsafe=unsafe)


RULE = Rule(
    summary="retain_graph with one backward pass a step",
    check=check,
    skips=(Skip.TESTS,),
    triggers=(frozenset({"retain_graph=True"}),),
)
