"""Frozen copies of a model that a hand-written loop trains, as references of its loss."""

from collections.abc import Iterator

from memlint.rule import Call, Finding, Object, Script, advise, facts, is_elsewhere


def references_of_loops(script: Script) -> Iterator[Finding]:
    """Frozen copies of the trained model, whose log-probabilities need no second set of weights."""
    seen = set()
    for policy in (*script.loop_models, *facts.own_models_of(script)):
        for module in facts.frozen_beside(script, policy):
            copy = _second_copy(script, module, policy)
            if copy is None or copy.node in seen or is_elsewhere(copy.node):
                continue
            advice = _reference_advice(script, policy)
            if advice is None or (copy.conditional and not policy.load.conditional):
                continue
            if copy.in_loop and policy.facts.peft:
                # A copy of the adapter too, as it was when a round began.
                continue
            seen.add(copy.node)
            yield Finding(
                script.span(copy.node.func),
                "a second copy of the weights as reference, for the whole run of the loop",
                advise(advice),
            )


def _second_copy(script: Script, module: Object, policy: facts.LoopModel) -> Call | None:
    """The call that made a frozen model of the policy's own weights; None for other models."""
    copy = facts.copy_of(script, module)
    if copy is not None:
        return copy
    model = script.model_facts(module)
    same = isinstance(model.name, str) and model.name and model.name == policy.facts.name
    return model.load if same else None


def _reference_advice(script: Script, policy: facts.LoopModel) -> str | None:
    if policy.facts.peft:
        return "Score with `model.disable_adapter()`: the policy's base is the reference"
    forms = [one.form for one in script.token_losses]
    if facts.draws_anew(script, policy.step) or facts.LossForm.DISTILLED in forms:
        # New completions, or more than a number a token, are not computed before.
        return None
    return "Compute the reference's log-probabilities once, before training"
