"""Gradients that ``DistributedDataParallel`` holds twice."""

from collections.abc import Iterator

from memlint.rule import (
    Call,
    Finding,
    Fix,
    Object,
    Rule,
    Script,
    Skip,
    advise,
    edits,
    facts,
    fix,
    triggers,
    unless_switched_off,
)

_OPTION = "gradient_as_bucket_view"
# What they make may be adapters; torchvision's models are small.
_SMALL = ("peft", "trl", "torchtune.modules.peft", "torchvision.models")
_DDP = "torch.nn.parallel.DistributedDataParallel"
_KWARGS = "accelerate.DistributedDataParallelKwargs"
# They hand their keywords on to torch's.
_STRATEGIES = (
    "lightning.pytorch.strategies.DDPStrategy",
    "pytorch_lightning.strategies.DDPStrategy",
)


def check(script: Script) -> Iterator[Finding]:
    if not script.may_train or script.needs_gradients_in_place:
        return
    for call in script.calls_to(_DDP, _KWARGS, *_STRATEGIES):
        made = call.as_call_of(_DDP) if call.name in _STRATEGIES else call
        view = made.effective(_OPTION)
        if view.value is not False or not made.has_option(_OPTION) or call.subclass is not None:
            continue
        if view.given and view.is_overridable_default:
            continue
        around = (getattr(one, "test", one) for one, _ in script.branches_around(call.node))
        if any("deepspeed" in script.text(one) for one in around):
            continue
        if _has_few_gradients(script, call):
            continue
        yield Finding(
            script.span(view.node if view.node is not None else call.node.func),
            "DDP keeps a second copy of all gradients in its buckets: 4 bytes a trained parameter "
            "in float32, 2 in bf16",
            _fix(script, call),
        )


def _has_few_gradients(script: Script, call: Call) -> bool:
    """True if adapters, a part, or a network of the script's own (which nobody calls large) may be
    trained, or whatever somebody else makes, or hooks may free each gradient in backward."""
    small = any(name.startswith(_SMALL) for *_, name in script.imports)
    if small or script.method_calls("register_post_accumulate_grad_hook"):
        return True
    wrapped = [script.text(one) for one in call.node.args[:1]]
    made = [call.argument(0)]
    if call.name == _KWARGS:
        each = script.method_calls("prepare")
        made = [one.argument(place) for one in each for place, _ in enumerate(one.node.args)]
    return any(script.text(module) in wrapped for module in script.frozen_modules) or any(
        one.root.cls or (one.type or "").startswith("torch.nn.")
        if isinstance(one, Object)
        else call.name == _DDP
        for value in made
        for one in getattr(value, "options", (value,))
    )


def _fix(script: Script, call: Call) -> Fix:
    """Advice where a view would be detached in place, which is refused: zeroed, not freed."""
    message = f"Set `{_OPTION}=True`"
    zeroed = [one.setting("set_to_none") for one in script.method_calls("zero_grad")]
    if any(one.given is not False and one.value is not True for one in zeroed):
        return advise(f"{message}, and free gradients with `zero_grad(set_to_none=True)`")
    if facts.detaches_gradients(script):
        return advise(message)
    proposed = fix(message, edits.set_option(script, call, _OPTION, "True"))
    return unless_switched_off(call.setting(_OPTION), proposed)


RULE = Rule(
    summary="DDP that holds gradients and copies of them in its buckets",
    check=check,
    effect={"bucket_copies": False},
    skips=(Skip.OFF_CUDA, Skip.TESTS),
    triggers=(frozenset({"DistributedDataParallel", "DDPStrategy"}), triggers.UPDATES),
)
