"""A training loop in which the last step's logits are alive while the next forward pass runs."""

from collections.abc import Iterator

from memlint.rule import Finding, Fix, Rule, Script, Skip, advise, edits, facts, fix, triggers


def check(script: Script) -> Iterator[Finding]:
    for step in script.steps:
        # An evaluation within the loop may keep its own.
        held = [
            one
            for one in step.held
            if one.holds_logits and any(_made_in(script, step, each) for each in one.values)
        ]
        flow, names = script.flow, [one.name for one in held]
        if len(names) > 1 and any(flow.is_read_after(step.node, name) for name in names):
            continue  # a second name is there to keep them
        kept = any(facts.is_kept(script, one) for one in step.all_forwards)
        if held and not kept and not any(flow.is_carried(step.node, name) for name in names):
            yield _finding(script, step, held)


def _made_in(script: Script, step: facts.Step, value: facts.Output | facts.Tensor) -> bool:
    run = value.forward
    return run is not None and facts.forward_at(script, run.invocation.node) in step.all_forwards


def _finding(script: Script, step: facts.Step, held: list[facts.Held]) -> Finding:
    names = [f"`{one.name}`" for one in held]
    listed = " and ".join(names) if len(names) < 3 else f"{', '.join(names[:-1])} and {names[-1]}"
    return Finding(
        script.span(held[0].place),
        f"{listed} {'keeps' if len(names) == 1 else 'keep'} the last step's logits through the "
        "next forward pass: 2 bytes for every token and word of the vocabulary in bf16 on top of "
        "the peak, 1 GiB for 4,096 tokens and 128k words",
        _fix(script, step, [one.name for one in held]),
    )


def _fix(script: Script, step: facts.Step, names: list[str]) -> Fix:
    deletion = f"del {', '.join(names)}"
    flow, loop = script.flow, step.node
    last = flow.last_use(loop, names)
    if last is None or not all(
        flow.is_bound_each_turn(loop, name, last) and not flow.is_read_after(loop, name)
        for name in names
    ):
        return advise(f"`{deletion}` when the step no longer needs them")
    return fix(
        f"`{deletion}` after the last use",
        (edits.InsertStatement(script.span(last), deletion, "after"),),
    )


RULE = Rule(
    summary="the last step's logits are alive while the next forward pass runs",
    check=check,
    skips=(Skip.UNSLOTH, Skip.OFF_CUDA, Skip.TESTS),
    effect={"held_outputs": False},
    triggers=(triggers.STEPS, triggers.UPDATES),
)
