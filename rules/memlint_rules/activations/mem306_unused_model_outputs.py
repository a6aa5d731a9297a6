"""Hidden states or attention weights asked for in training and never read.

``output_hidden_states=True`` hands out every layer's input and the last one's output: 2 x (layers +
1) x hidden size bytes per token in bf16, 264 KiB for Llama 3 8B. Backward needs most of them
anyway, so they cost where the outputs outlive it: in a loop that names them, until the next forward
pass has returned (counted: 0.27 GiB of 8.8 for a 1B model and 4,096 tokens), and in evaluation.
``output_attentions=True`` costs more: fused attention cannot give weights, so that attention
becomes eager, and every layer's scores for all pairs of tokens stay. Source: transformers' models;
counted in ``tests/bench/outputs_outlive_step.py``.
"""

from __future__ import annotations

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
        findings = list(_requests(script, field))
        if findings and not facts.may_read_output(script, field):
            yield from findings


def _requests(script: Script, field: str) -> Iterator[Finding]:
    option = f"output_{field}"
    for forward in script.forwards:
        if forward.option(option) is True and forward.in_training_step and _known(script, forward):
            yield _in_call(script, forward.call, field, outlives=forward.outlives_backward)
    if _evaluation_gets_all(script):
        return
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
    load = forward.facts.load
    return load.name.startswith("transformers.") if load else bool(script.model_loads)


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
    code="MEM306",
    name="unused-model-outputs",
    level=Level.WASTE,
    summary="hidden states or attention weights asked for in training and never read",
    check=check,
    triggers=(triggers.STEPS, frozenset(f"output_{field}" for field in _FIELDS)),
)
