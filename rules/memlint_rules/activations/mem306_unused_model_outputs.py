"""Hidden states or attention weights asked for in training and never read."""

from collections.abc import Iterator

from memlint.rule import Call, Finding, Level, Rule, Script, advise, edits, facts, fix, triggers

_FIELDS = {
    "hidden_states": "nothing reads the hidden states of all layers, which live as long as the "
    "outputs do",
    "attentions": "attention becomes eager and the weights of all layers, one for every head and "
    "pair of tokens, are kept; nothing reads them",
}
_EVALUATION_HOOKS = ("compute_metrics", "preprocess_logits_for_metrics", "compute_loss_func")


def check(script: Script) -> Iterator[Finding]:
    for field in _FIELDS:
        read = facts.may_read_output(script, field)
        for forward in script.forwards:
            names = script.fields_read(forward) if read else ()
            may_read = read and any(field in name for name in names or (field,))
            asked = forward.option(f"output_{field}") is True and forward.in_training_step
            may_read = may_read or script.moves_others(forward) is True
            if asked and not may_read and _known(script, forward):
                yield _in_call(script, forward.call, field, outlives=forward.outlives_backward)
        if not read and not _evaluation_gets_all(script):
            yield from _of_models(script, field)


def _of_models(script: Script, field: str) -> Iterator[Finding]:
    option = f"output_{field}"
    for load in script.model_loads:
        if load.setting(option).value is True and script.trains_model(load):
            yield _in_call(script, load, field, outlives=False)
    for assignment in facts.config_assignments(script, option):
        made = script.model_facts(script.value(assignment.model)).load
        if script.python(assignment.value) is True and made and script.trains_model(made):
            yield Finding(
                script.span(assignment.statement),
                f"`{option} = True`: {_FIELDS[field]}",
                fix(
                    f"Set `{option}` to False",
                    (edits.ReplaceExpression(script.span(assignment.value), "False"),),
                ),
                _level(field, outlives=False),
            )


def _known(script: Script, forward: facts.Forward) -> bool:
    """True if the model is one of transformers, as far as the script says."""
    names = [load.name for load in forward.facts.loads]
    known = all(name.startswith("transformers.") for name in names)
    return known and bool(names or script.model_loads)


def _evaluation_gets_all(script: Script) -> bool:
    """True if an evaluation hands all outputs to the script."""
    return any(
        trainer.setting(name).given is not False
        for trainer in script.trainers
        for name in _EVALUATION_HOOKS
    )


def _level(field: str, *, outlives: bool) -> Level | None:
    """Hidden states that go with the forward pass cost in evaluation only: a hint."""
    return None if outlives or field == "attentions" else Level.HINT


def _in_call(script: Script, call: Call, field: str, *, outlives: bool) -> Finding:
    option, level = f"output_{field}", _level(field, outlives=outlives)
    message = f"`{option}=True`: {_FIELDS[field]}"
    keyword = call.keyword_node(option)
    if keyword is None or script.text(keyword.value) != "True":
        advice = advise(f"Take `{option}` out")
        return Finding(script.span(call.node.func), message, advice, level)
    removal = fix(f"Remove `{option}`", (edits.RemoveKeyword(call.span, option),))
    return Finding(script.span(keyword.value), message, removal, level)


RULE = Rule(
    summary="hidden states or attention weights asked for in training and never read",
    check=check,
    triggers=(triggers.STEPS, frozenset(f"output_{field}" for field in _FIELDS)),
)
