"""What wraps a model, hands it back or sets its mode."""

from __future__ import annotations

from memlint.script.interpreter import CallEffect, Interpreter
from memlint.script.invocations import Invocation
from memlint.script.modes import flag_of, set_gradients, set_training
from memlint.script.values import (
    UNKNOWN,
    Object,
    Sequence,
    Value,
    first_object,
)


def _wraps(run: Interpreter, record: Invocation) -> Value | None:
    """A function that returns its model in another coat (PEFT, compile, k-bit preparation)."""
    inner = record.first_object
    if inner is None:
        return None
    made = run.new_object(type=inner.type, made_by=record, base=inner, node=record.node)
    run.copy_bindings(inner, made)
    return made


def _same(run: Interpreter, record: Invocation) -> Value | None:
    """A method that returns its object: ``model.to(...)``, ``.cuda()``, ``.eval()``."""
    return record.receiver if isinstance(record.receiver, Object) else None


def _eval_mode(run: Interpreter, record: Invocation) -> Value | None:
    """``model.eval()``: the mode is followed, and the model comes back."""
    return set_training(run, record, False) or _same(run, record)


def _train_mode(run: Interpreter, record: Invocation) -> Value | None:
    """``model.train()``, ``model.train(mode)``; a trainer's ``train`` as well."""
    return set_training(run, record, flag_of(record)) or _same(run, record)


def _set_grad_enabled(run: Interpreter, record: Invocation) -> Value | None:
    """As a statement it holds from here on; ``with`` restores what was before."""
    set_gradients(run, flag_of(record))
    return None


def _first_argument(run: Interpreter, record: Invocation) -> Value | None:
    """``accelerator.unwrap_model(model)`` returns what was wrapped."""
    return record.arguments[0] if record.arguments else None


def _deepspeed(run: Interpreter, record: Invocation) -> Value | None:
    """``deepspeed.initialize`` returns the wrapped model, an optimizer, a loader, a scheduler."""
    given = record.keywords.get("model")
    values = [given.value] if given is not None else list(record.arguments[1:2])
    inner = first_object(values)
    if inner is None:
        return None
    made = run.new_object(type=inner.type, made_by=record, base=inner, node=record.node)
    run.copy_bindings(inner, made)
    return Sequence((made, UNKNOWN, UNKNOWN, UNKNOWN), "tuple")


def _prepare(run: Interpreter, record: Invocation) -> Value | None:
    """``accelerator.prepare(a, b)`` returns what it was given, wrapped."""
    if len(record.arguments) == 1 and not record.open_arguments:
        return record.arguments[0]
    if record.arguments and not record.open_arguments:
        return Sequence(record.arguments, "tuple")
    return None


def _merge_adapter(run: Interpreter, record: Invocation) -> Value | None:
    """``peft_model.merge_and_unload()``: a plain model again."""
    inner = record.receiver_object
    if inner is None:
        return None
    return run.new_object(type=inner.type, made_by=record, base=inner, node=record.node)


def _limited(run: Interpreter, record: Invocation) -> Value | None:
    """``limit_prompts(DPOTrainer, 512)`` is a trainer's class as the one given."""
    return record.arguments[0] if record.arguments else None


_MOVING = (".to", ".cuda", ".cpu", ".half", ".bfloat16", ".float", ".requires_grad_")
_WRAPPING = (
    "peft.get_peft_model",
    "peft.prepare_model_for_kbit_training",
    "peft.prepare_model_for_int8_training",
    "peft.PeftModel.from_pretrained",
    "peft.PeftModelForCausalLM.from_pretrained",
    "peft.PeftModel",
    "torch.compile",
    "trl.create_reference_model",
    "trl.AutoModelForCausalLMWithValueHead.from_pretrained",
    "torch.nn.DataParallel",
    "torch.nn.parallel.DistributedDataParallel",
    "torch.distributed.fsdp.FullyShardedDataParallel",
)
WRAPPERS: dict[str, CallEffect] = {
    "memlint_runtime.limit_prompts": _limited,
    "torch.set_grad_enabled": _set_grad_enabled,
    "torch.autograd.set_grad_enabled": _set_grad_enabled,
    "torch.autograd.grad_mode.set_grad_enabled": _set_grad_enabled,
    "torch._C._set_grad_enabled": _set_grad_enabled,
    ".prepare": _prepare,
    ".unwrap_model": _first_argument,
    ".eval": _eval_mode,
    ".train": _train_mode,
    "deepspeed.initialize": _deepspeed,
    ".merge_and_unload": _merge_adapter,
    **dict.fromkeys(_WRAPPING, _wraps),
    **dict.fromkeys(_MOVING, _same),
}
