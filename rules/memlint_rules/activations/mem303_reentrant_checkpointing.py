"""Activation checkpointing of the reentrant kind.

Reentrant checkpointing runs a layer again as a training step of its own: detached inputs, a whole
second forward, a nested backward. The other kind keeps one graph and stops recomputing where the
last saved tensor is there. Counted, for a 1B model's shape and 8,192 tokens in bf16, all weights
trained or one projection of each layer: the reentrant kind's peak is higher by one layer's output,
32 MiB of 4.8 or 3.5 GiB. The reentrant kind also
runs the whole layer again where the other stops early, ignores saved-tensor hooks, so that nothing
of it can be offloaded or kept selectively, and trains nothing, silently, where no input of a layer
wants a gradient (frozen embeddings). Source: PyTorch documentation, ``torch.utils.checkpoint``;
``prepare_model_for_kbit_training`` of ``peft/utils/other.py``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from memlint.rule import (
    Applicability,
    Call,
    Config,
    Edit,
    Example,
    Finding,
    Fix,
    Level,
    Object,
    Origin,
    ReplaceExpression,
    Rule,
    Script,
    SetItem,
    SetKeyword,
    Setting,
)
from memlint_rules._checkpointing import (
    ARGUMENTS,
    ENABLERS,
    is_on,
    is_reentrant_by_default,
    trainer_turns_on,
)
from memlint_rules._libraries import LIBRARIES

_OPTION = "use_reentrant"
_SOURCE = '{"use_reentrant": False}'
_KBIT = "peft.prepare_model_for_kbit_training"
_FUNCTIONS = (
    "torch.utils.checkpoint.checkpoint",
    "torch.utils.checkpoint.checkpoint_sequential",
)
_WHY = (
    "one layer's output more is held at the peak, and offloading or selective checkpointing inside "
    "a layer has no effect"
)


def check(script: Script) -> Iterator[Finding]:
    if script.uses_unsloth or script.off_cuda or _sharded_by_deepspeed(script):
        return
    for config in script.configs:
        yield from _in_config(script, config)
    if _nobody_turns_it_on_again(script):
        yield from _in_calls(script)
    for call in script.calls_to(*_FUNCTIONS):
        if len(call.node.args) + len(call.node.keywords) > 1:
            # ``checkpoint(layer)`` alone runs nothing that has an input.
            yield from _in_function(script, call)


def _sharded_by_deepspeed(script: Script) -> bool:
    """ZeRO-3 gathers weights between the two forward passes: non-reentrant ones differ there."""
    return script.imports_package("deepspeed") or any(
        config.setting("deepspeed").given is not False for config in script.configs
    )


def _nobody_turns_it_on_again(script: Script) -> bool:
    """Whether the script trains, and none of its trainers turns checkpointing on by itself."""
    if script.trainers:
        return all(trainer_turns_on(trainer) is False for trainer in script.trainers)
    return bool(script.loops) or script.imports_package("lightning", "pytorch_lightning")


def _in_config(script: Script, config: Config) -> Iterator[Finding]:
    trainers = script.training_with(config)
    if is_on(config) is not True or not trainers:
        return
    given = [config.setting(name) for name in ARGUMENTS]
    if any(setting.given is None for setting in given):
        return
    written = [setting for setting in given if setting.given]
    if any(not setting.is_none for setting in written):
        for setting in written:
            yield from _in_dict(script, setting)
        return
    name = next(filter(config.has_option, ARGUMENTS), None)
    if name is not None and all(is_reentrant_by_default(script, trainer) for trainer in trainers):
        edits = script.set_option(config, name, _SOURCE)
        yield Finding(
            script.span(config.node.func),
            f"checkpointing is reentrant by the default of this version: {_WHY}",
            _fix(edits, f"Set `{name}={_SOURCE}`"),
        )


def _in_dict(script: Script, setting: Setting) -> Iterator[Finding]:
    """An explicit ``{"use_reentrant": True}``."""
    made = setting.value
    if not isinstance(made, Object) or made.type != "dict":
        return
    if script.item(made, _OPTION) is not True:
        return
    node = setting.node or made.node
    if node is None:
        return
    edits = _false_in(script, made)
    yield Finding(
        script.span(node),
        f"checkpointing is set to be reentrant: {_WHY}",
        _fix(edits, f"Set `{_OPTION}` to False"),
    )


def _false_in(script: Script, made: Object) -> tuple[Edit, ...] | None:
    """Edits where the dict gets its item; None where a command line or several places decide."""
    slot = script.final_slots(made)[_OPTION]
    origin = getattr(slot.value, "origin", None)
    match slot.owner:
        case _ if origin is not Origin.LITERAL:
            return None
        case ast.Dict() as owner:
            return (SetItem(script.span(owner), _OPTION, "False"),)
        case ast.Call() as owner:
            return (SetKeyword(script.span(owner), _OPTION, "False"),)
        case ast.Assign() as owner:
            return (ReplaceExpression(script.span(owner.value), "False"),)
        case _:
            return None


def _in_calls(script: Script) -> Iterator[Finding]:
    """What turns checkpointing on by itself, where no trainer does it again: the last one."""
    calls = [
        call
        for call in (*script.calls_to(_KBIT), *script.method_calls(*ENABLERS))
        if call.name == _KBIT or _on_a_library_model(call)
    ]
    for call in calls:
        if any(other.order > call.order and other is not call for other in calls):
            continue
        kbit = call.name == _KBIT
        if kbit and not script.may_turn_on_checkpointing(call):
            continue
        given = [call.setting(name) for name in ARGUMENTS]
        if any(setting.given is not False and not setting.is_none for setting in given):
            for setting in given:
                yield from _in_dict(script, setting)
        elif call.open_ended or (call.node.args and not kbit):
            continue
        elif kbit or script.api.behaviour("checkpointing") == "reentrant":
            yield _bare(script, call)


def _on_a_library_model(call: Call) -> bool:
    """Whether the method may be that of transformers: not of a class that the script defines."""
    if isinstance(call.receiver, Object):
        return call.receiver.cls is None
    return isinstance(call.node.func, ast.Attribute) and not (
        isinstance(call.node.func.value, ast.Call | ast.Name)
        and ast.unparse(call.node.func.value) in ("self", "super()")
    )


def _bare(script: Script, call: Call) -> Finding:
    name = ARGUMENTS[1]
    if call.name != _KBIT and "activation" in call.method:
        name = ARGUMENTS[0]
    accepts = script.api.accepts(_KBIT, name) if call.name == _KBIT else True
    what = "this preparation turns on" if call.name == _KBIT else "this turns on"
    edits = (SetKeyword(call.span, name, _SOURCE),) if accepts else None
    return Finding(
        call.span,
        f"{what} the reentrant kind of checkpointing, its default: {_WHY}",
        _fix(edits, f"Pass `{name}={_SOURCE}`"),
    )


def _in_function(script: Script, call: Call) -> Iterator[Finding]:
    setting = call.effective(_OPTION)
    # None is the reentrant kind, with a warning.
    if setting.value is True or setting.is_none:
        edits = script.set_option(call, _OPTION, "False")
        yield Finding(
            script.span(call.node.func),
            f"this segment is checkpointed by the reentrant kind: {_WHY}",
            _fix(edits, f"Pass `{_OPTION}=False`"),
        )


def _fix(edits: tuple[Edit, ...] | None, message: str) -> Fix:
    if not edits:
        return Fix(message, (), Applicability.DISPLAY)
    return Fix(message, edits)


RULE = Rule(
    code="MEM303",
    name="reentrant-checkpointing",
    level=Level.WASTE,
    summary="activation checkpointing of the reentrant kind",
    why=(
        "Reentrant checkpointing runs a layer again as a small training step of its own. It "
        "recomputes the layer to its end (the other kind stops at the last tensor that backward "
        "needs), holds one layer's output more at the peak, ignores saved-tensor hooks, so that "
        "offloading and selective checkpointing have no effect inside, and gives no gradients "
        "where no input of a layer wants one. transformers 5 and TRL's trainers since 0.27 use the "
        "non-reentrant kind unless told otherwise. `prepare_model_for_kbit_training(model)` does "
        "not: it turns the reentrant kind on, and only a trainer that turns checkpointing on "
        "again, or a later call, decides otherwise. Silent under Unsloth and where DeepSpeed is "
        "configured, since ZeRO-3 needs the reentrant kind."
    ),
    fix_safety=(
        "Safe: the recomputed numbers are the same. Advice only where the value comes from outside "
        "the script, or where the version takes no keyword for it."
    ),
    check=check,
    triggers=(
        frozenset({"checkpoint", "prepare_model_for_kbit_training", "Config", "Arguments"}),
        (*LIBRARIES, "utils.checkpoint", "utils import checkpoint"),
    ),
    references=(
        "https://docs.pytorch.org/docs/stable/checkpoint.html",
        "https://github.com/huggingface/trl/pull/4811",
    ),
    examples=(
        Example(
            title="asked for",
            bad="""\
from trl import SFTConfig, SFTTrainer

args = SFTConfig(
    "out",
    gradient_checkpointing=True,
    gradient_checkpointing_kwargs={"use_reentrant": True},
)
SFTTrainer("Qwen/Qwen3-0.6B", args=args, train_dataset=dataset).train()
""",
            good="""\
from trl import SFTConfig, SFTTrainer

args = SFTConfig(
    "out",
    gradient_checkpointing=True,
    gradient_checkpointing_kwargs={"use_reentrant": False},
)
SFTTrainer("Qwen/Qwen3-0.6B", args=args, train_dataset=dataset).train()
""",
        ),
        Example(
            title="in a model of the script's own",
            bad="""\
from torch.utils.checkpoint import checkpoint


def forward(self, x):
    for layer in self.layers:
        x = checkpoint(layer, x)
    return x
""",
            good="""\
from torch.utils.checkpoint import checkpoint


def forward(self, x):
    for layer in self.layers:
        x = checkpoint(layer, x, use_reentrant=False)
    return x
""",
        ),
    ),
)
