"""What wraps a model, hands it back or sets its mode."""

from __future__ import annotations

from memlint.engine.interpreter import CallEffect, Interpreter
from memlint.engine.modes import flag_of, set_gradients, set_training
from memlint.engine.values import (
    UNKNOWN,
    Invocation,
    Object,
    Sequence,
    Value,
    first_object,
)


def _wraps(run: Interpreter, invocation: Invocation) -> Value | None:
    """A function that returns its model in another coat (PEFT, compile, k-bit preparation)."""
    inner = invocation.first_object
    if inner is None:
        return None
    made = run.new_object(type=inner.type, made_by=invocation, base=inner, node=invocation.node)
    run.copy_bindings(inner, made)
    return made


def _same(run: Interpreter, invocation: Invocation) -> Value | None:
    """A method that returns its object: ``model.to(...)``, ``.cuda()``, ``.eval()``."""
    return invocation.receiver if isinstance(invocation.receiver, Object) else None


def _eval_mode(run: Interpreter, invocation: Invocation) -> Value | None:
    """``model.eval()``: the mode is followed, and the model comes back."""
    return set_training(run, invocation, False) or _same(run, invocation)


def _train_mode(run: Interpreter, invocation: Invocation) -> Value | None:
    """``model.train()``, ``model.train(mode)``; a trainer's ``train`` as well."""
    return set_training(run, invocation, flag_of(invocation)) or _same(run, invocation)


def _set_grad_enabled(run: Interpreter, invocation: Invocation) -> Value | None:
    """As a statement it holds from here on; ``with`` restores what was before."""
    set_gradients(run, flag_of(invocation))
    return None


def _first_argument(run: Interpreter, invocation: Invocation) -> Value | None:
    """``accelerator.unwrap_model(model)`` returns what was wrapped; ``limit_prompts(X, 8)`` is
    a class of trainers as the one that it takes."""
    return invocation.arguments[0] if invocation.arguments else None


def _deepspeed(run: Interpreter, invocation: Invocation) -> Value | None:
    """``deepspeed.initialize`` returns the wrapped model, an optimizer, a loader, a scheduler."""
    given = invocation.keywords.get("model")
    values = [given.value] if given is not None else list(invocation.arguments[1:2])
    inner = first_object(values)
    if inner is None:
        return None
    made = run.new_object(type=inner.type, made_by=invocation, base=inner, node=invocation.node)
    run.copy_bindings(inner, made)
    return Sequence((made, UNKNOWN, UNKNOWN, UNKNOWN), "tuple")


def _set_up(run: Interpreter, invocation: Invocation) -> Value | None:
    """``fabric.setup(model, optimizer)`` returns what it was given, wrapped."""
    receiver = invocation.receiver
    kind = receiver.type if isinstance(receiver, Object) else None
    return _prepare(run, invocation) if kind is not None and kind.endswith(".Fabric") else None


def _prepare(run: Interpreter, invocation: Invocation) -> Value | None:
    """``accelerator.prepare(a, b)`` returns what it was given, wrapped."""
    if len(invocation.arguments) == 1 and not invocation.open_arguments:
        return invocation.arguments[0]
    if invocation.arguments and not invocation.open_arguments:
        return Sequence(invocation.arguments, "tuple")
    return None


def _merge_adapter(run: Interpreter, invocation: Invocation) -> Value | None:
    """``peft_model.merge_and_unload()``: a plain model again."""
    inner = invocation.receiver_object
    if inner is None:
        return None
    return run.new_object(type=inner.type, made_by=invocation, base=inner, node=invocation.node)


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
    "memlint_runtime.limit_prompts": _first_argument,
    "torch.set_grad_enabled": _set_grad_enabled,
    "torch.autograd.set_grad_enabled": _set_grad_enabled,
    "torch.autograd.grad_mode.set_grad_enabled": _set_grad_enabled,
    "torch._C._set_grad_enabled": _set_grad_enabled,
    ".prepare": _prepare,
    **dict.fromkeys((".setup", ".setup_module", ".setup_dataloaders"), _set_up),
    ".unwrap_model": _first_argument,
    # Old releases return the model, and scripts of their time bind it again.
    "peft.set_peft_model_state_dict": _first_argument,
    ".eval": _eval_mode,
    ".train": _train_mode,
    "deepspeed.initialize": _deepspeed,
    ".merge_and_unload": _merge_adapter,
    **dict.fromkeys(_WRAPPING, _wraps),
    **dict.fromkeys(_MOVING, _same),
}
