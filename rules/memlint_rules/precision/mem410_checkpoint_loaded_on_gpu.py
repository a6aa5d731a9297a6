"""A checkpoint that is read onto the GPU, beside the model that it is copied into."""

from collections.abc import Iterator

from memlint.rule import (
    Call,
    Finding,
    Level,
    Rule,
    Script,
    Skip,
    TrainingRun,
    by_change,
    edits,
    facts,
    fix,
    triggers,
)

_OPTION = "map_location"
_KEPT = "the checkpoint is read onto the GPU, beside the model that it is copied into"
_RESTORED = (
    "the checkpoint is read onto the device that it was saved from, for a GPU's beside the model "
    "that it is copied into"
)


def check(script: Script) -> Iterator[Finding]:
    if not script.may_train:
        return
    for call in script.calls_to("torch.load"):
        place = call.setting(_OPTION)
        if place.given is None or call.has_unknown_keywords or call.in_loop:
            continue
        saved = place.given is False or place.value is None
        if not (saved or _is_gpu(script, call)):
            continue
        fates = facts.fates_of(script, call)
        if facts.Fate.UNKNOWN in fates or facts.Fate.RESTORED not in fates:
            continue
        yield Finding(
            script.span(call.node.func),
            _RESTORED if saved else _KEPT,
            fix(
                f'Set `{_OPTION}="cpu"`',
                _edits(script, call),
                unsafe=facts.Fate.KEPT in fates,
                effect={"checkpoint_on_gpu": False},
            ),
        )


def _edits(script: Script, call: Call) -> tuple[edits.Edit, ...] | None:
    """In the call itself: what else reads a device's name keeps it."""
    if call.keyword_node(_OPTION) is not None:
        return (edits.SetKeyword(call.span, _OPTION, '"cpu"'),)
    return edits.set_option(script, call, _OPTION, '"cpu"')


def _is_gpu(script: Script, call: Call) -> bool:
    """True if it is read onto the GPU where there is one: ``cuda``, or a device made of that."""
    names = facts.names_of_device(script, call.setting(_OPTION).raw)
    return any(name.startswith("cuda") for name in names)


def of_run(run: TrainingRun) -> Iterator[Finding]:
    load = run.sharded_load
    if load.is_value(False):
        message = "ZeRO-3 without `zero3_init_flag`: every process first loads the whole model"
        yield Finding(load.span, message, by_change(run.set(sharded_load=True)), Level.HINT)


RULE = Rule(
    summary="a checkpoint read onto the GPU beside the model",
    check=check,
    of_run=of_run,
    skips=(Skip.OFF_CUDA, Skip.TESTS),
    triggers=(
        frozenset({"torch.load", "import load"}),
        frozenset({"load_state_dict", "set_peft_model_state_dict"}),
        triggers.UPDATES,
    ),
)
