"""The model inside what libraries put around it; put into another state for a look, and back."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.distributed.tensor import DTensor

__all__ = [
    "NO_REASON", "has_whole_parameters", "in_mode", "kind_of", "plain_ids", "reduces_in_order",
    "refuse_context_parallelism", "relative_errors", "require_model", "require_parameters",
    "tolerated", "unwrap",
]  # fmt: skip

# Of a token's hidden state, relative. A few tokens may be off by more where an expert was chosen by
# a hair, so that the median decides.
_TOLERATED = {torch.float64: 1e-6, torch.float32: 1e-3, torch.float16: 0.05, torch.bfloat16: 0.1}
# Errors of the device, which say nothing of a model.
NO_REASON = (torch.OutOfMemoryError, getattr(torch, "AcceleratorError", torch.OutOfMemoryError))


def tolerated(dtype: torch.dtype) -> float:
    """The relative error that rounding in this type explains."""
    return _TOLERATED.get(dtype, 0.1)


def relative_errors(found_TD: Tensor, wanted_TD: Tensor) -> Tensor:
    """Of each token's hidden state, `[T]`."""
    wanted_TD = wanted_TD.float()
    size_T = wanted_TD.norm(dim=-1).clamp(min=1e-9)  # padding may be embedded as zeros
    errors_T: Tensor = (found_TD.float() - wanted_TD).norm(dim=-1) / size_T
    return errors_T


def plain_ids(model: Any, count: int) -> Tensor:
    """So many token ids to look at a model with: away from the first, which tend to be special."""
    vocabulary: int = model.config.get_text_config().vocab_size
    draw = torch.arange(count, device=next(model.parameters()).device) * 7 + vocabulary // 2
    return draw.remainder(vocabulary)


@contextmanager
def in_mode(model: nn.Module, training: bool) -> Iterator[None]:
    """Every module in this mode, nothing checkpointed; each as it was again afterwards."""
    modes = {module: module.training for module in model.modules()}
    checkpointed = [m for m in modes if vars(m).get("gradient_checkpointing")]
    for module in modes:
        module.training = training
    for module in checkpointed:
        vars(module)["gradient_checkpointing"] = False
    try:
        yield
    finally:
        for module, was in modes.items():
            module.training = was
        for module in checkpointed:
            vars(module)["gradient_checkpointing"] = True


def reduces_in_order(model: nn.Module) -> bool:
    """True if processes must have their gradients ready in one order, all of them the same.

    DeepSpeed's ZeRO-1 and ZeRO-2 put gradients into buckets as they come and sum bucket by bucket:
    where processes differ in the order, gradients of one parameter are added to another's.
    """
    return any(hasattr(p, "param_idx_in_group") for p in model.parameters())


def has_whole_parameters(model: nn.Module, *, fakes: bool = False) -> bool:
    """True if the model can be run here and now: no parameter sharded or elsewhere, nor unreal
    unless `fakes` are taken for what they stand for."""
    return not any(
        isinstance(p, DTensor if fakes else DTensor | FakeTensor)
        or p.is_meta
        or hasattr(p, "ds_id")
        or hasattr(p, "_is_flat_param")
        for p in model.parameters()
    )


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _cuts_rows() -> bool:
    """True if attention is context parallelism's. Compiled code is asked as it is traced."""
    home = getattr(nn.functional.scaled_dot_product_attention, "__module__", None) or ""
    return home.startswith("torch.distributed.tensor.experimental")


def refuse_context_parallelism(what: str) -> None:
    """Raise ValueError within torch's `context_parallel`, which cuts rows along their tokens.

    what: what would then see one process's tokens alone, for the message. While it is on, torch
    puts a function of its own in the place of `scaled_dot_product_attention`; attention that does
    not go that way stays within a process, without a word.
    """
    if _cuts_rows():
        raise ValueError(
            f"{what} attends within one process, and context parallelism has cut the rows among "
            "several: set its size to 1 (cp_size=1), or leave this out"
        )


def unwrap(model: nn.Module) -> Any:
    """The model inside DDP, torch.compile and PEFT wrappers. Raises TypeError for what is none."""
    require_model(model)
    inner: Any = model
    while True:
        if hasattr(inner, "_orig_mod"):
            inner = inner._orig_mod
        elif isinstance(inner, nn.parallel.DistributedDataParallel):
            inner = inner.module
        elif hasattr(inner, "get_base_model"):
            inner = inner.get_base_model()
        else:
            return inner


def require_model(owner: Any, wanted: str = "a model (a torch.nn.Module)") -> None:
    """Raise TypeError unless it is a module, an object of it and not its class.

    wanted: what the caller takes, for the message.
    """
    if isinstance(owner, nn.Module):
        return
    raise TypeError(f"wants {wanted}, got {kind_of(owner)}")


def require_parameters(trainer: type, relied_upon: dict[str, tuple[str, ...]]) -> None:
    """Raises RuntimeError where TRL's own version of a method no longer has these parameters."""
    for method, wanted in relied_upon.items():
        theirs = next(
            (
                vars(cls)[method]
                for cls in trainer.__mro__
                if cls.__module__.startswith("trl.") and method in vars(cls)
            ),
            None,
        )
        found = () if theirs is None else tuple(inspect.signature(theirs).parameters)
        if found[: len(wanted)] != wanted:
            raise RuntimeError(
                f"{trainer.__name__} relies on {method}({', '.join(wanted)}), and trl "
                f"{version('trl')} has {method}({', '.join(found)}). It is tested with trl "
                f"1.16: install that, or use TRL's own trainer"
            )


def kind_of(owner: Any) -> str:
    """What was given in the place of an object, for a message."""
    if isinstance(owner, type):
        return f"the class {owner.__name__} itself: make an object of it first"
    return f"{type(owner).__name__}: pass the object itself"
