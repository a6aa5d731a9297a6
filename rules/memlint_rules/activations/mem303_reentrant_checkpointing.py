"""Activation checkpointing of the reentrant kind."""

from collections.abc import Iterator

from memlint.rule import (
    CHECKPOINTING_ARGUMENTS,
    Call,
    Finding,
    Fix,
    Object,
    Rule,
    Script,
    Setting,
    Skip,
    TrainingRun,
    by_change,
    edits,
    facts,
    fix,
    triggers,
)

_OPTION = "use_reentrant"
_SOURCE = '{"use_reentrant": False}'
_KBIT = "peft.prepare_model_for_kbit_training"
# The older one for 8 bits is gone: what takes its place is reentrant, too.
_PREPARATIONS = "peft.prepare_model_for_"
_FUNCTIONS = ("torch.utils.checkpoint.checkpoint", "torch.utils.checkpoint.checkpoint_sequential")
_WHY = (
    "one layer's output more is held at the peak, and offloading or selective checkpointing inside "
    "a layer has no effect"
)


def check(script: Script) -> Iterator[Finding]:
    call = facts.deciding_call(script)
    if call is not None:
        yield from _in_call(script, call)
    for call in script.calls_to(*_FUNCTIONS):
        setting = call.effective(_OPTION)
        # ``checkpoint(layer)`` alone runs nothing that has an input. None means reentrant.
        if len(call.node.args) + len(call.node.keywords) > 1 and (
            setting.value is True or setting.is_none
        ):
            changes = edits.set_option(script, call, _OPTION, "False")
            yield Finding(
                script.span(call.node.func),
                f"this segment is checkpointed by the reentrant kind: {_WHY}",
                _fix(script, f"Pass `{_OPTION}=False`", changes, call),
            )


def _fix(
    script: Script,
    message: str,
    changes: tuple[edits.Edit, ...] | None,
    segment: Call | None = None,
) -> Fix:
    """Safe where inputs certainly want gradients, or the segment is a function without weights: the
    reentrant kind leaves the others untrained, and the other kind trains them."""
    run = script.name(segment.node.args[0]) if segment is not None and segment.node.args else None
    certain = segment is None or (run is not None and run.startswith("torch."))
    return fix(
        message, changes, unsafe=not certain or script.sets("requires_grad", "requires_grad_")
    )


def _in_dicts(script: Script, given: list[Setting]) -> Iterator[Finding]:
    """An explicit ``{"use_reentrant": True}``."""
    for setting in given:
        made = setting.value
        if not isinstance(made, Object) or made.type != "dict":
            continue
        node = setting.node or made.node
        if node is not None and script.item(made, _OPTION) is True:
            yield Finding(
                script.span(node),
                f"checkpointing is set to be reentrant: {_WHY}",
                _fix(
                    script,
                    f"Set `{_OPTION}` to False",
                    edits.set_item(script, made, _OPTION, "False"),
                ),
            )


def _in_call(script: Script, call: Call) -> Iterator[Finding]:
    kbit = call.name.startswith(_PREPARATIONS)
    given = [call.setting(name) for name in CHECKPOINTING_ARGUMENTS]
    if any(setting.given is not False and not setting.is_none for setting in given):
        yield from _in_dicts(script, given)
        return
    reentrant = kbit or (
        script.api.behaviour("checkpointing") == "reentrant" and not call.node.args
    )
    if reentrant and not call.has_unknown_keywords:
        yield _bare(script, call)


def _bare(script: Script, call: Call) -> Finding:
    kbit = call.name.startswith(_PREPARATIONS)
    name = CHECKPOINTING_ARGUMENTS[kbit or "activation" not in call.method]
    changes = (edits.SetKeyword(call.span, name, _SOURCE, beside_unpacking=True),)
    return Finding(
        call.span,
        f"{'this preparation' if kbit else 'this'} turns on the reentrant kind of checkpointing, "
        f"its default: {_WHY}",
        _fix(
            script,
            f"Pass `{name}={_SOURCE}`",
            changes if not kbit or script.api.accepts(_KBIT, name) else None,
        ),
    )


def of_run(run: TrainingRun) -> Iterator[Finding]:
    reentrant = run.reentrant
    if reentrant.is_value(True):
        message = f"{reentrant.said}: {_WHY}"
        yield Finding(reentrant.span, message, by_change(run.set(reentrant=False)))


RULE = Rule(
    summary="activation checkpointing of the reentrant kind",
    check=check,
    of_run=of_run,
    skips=(Skip.UNSLOTH, Skip.OFF_CUDA, Skip.DEEPSPEED),
    triggers=(
        frozenset({"checkpoint", "prepare_model_for_", "Config", "Arguments"}),
        (*triggers.LIBRARIES, "utils.checkpoint", "utils import checkpoint"),
    ),
    effect={"checkpointing": "non_reentrant"},
)
