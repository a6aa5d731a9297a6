"""A second kind of device that has no memory: where tensors are, counted without a GPU.

Under `FakeTensorMode`, tensors on "card" have shapes, types and a device, and no bytes. Operations
that mix the card with the host fail as they do on a GPU, and `track_memory(device="card")` counts
the card alone. For processes of their own: torch cannot take a kind of device back.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from memlint_runtime.device_copies import SynchronousCopies
from memlint_runtime.fake_memory import MemoryTracker
from memlint_runtime.streaming import blocks, slots
from torch import Tensor, nn
from torch.utils import backend_registration
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

__all__ = ["CARD", "CardCopies", "carry", "install_card", "streaming_to_the_card"]

CARD = "card"


class _CardModule(backend_registration._DummyBackendModule):
    """What torch and transformers ask of a kind of device."""

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.float16, torch.bfloat16]

    def is_autocast_enabled(self) -> bool:
        return False

    def get_autocast_dtype(self) -> torch.dtype:
        return torch.bfloat16

    def get_rng_state(self, *ignored: Any) -> Tensor:
        return torch.zeros(1)

    def set_rng_state(self, *ignored: Any) -> None: ...

    def device(self, *ignored: Any) -> Any:
        return contextlib.nullcontext()

    def synchronize(self, *ignored: Any) -> None: ...


def install_card() -> None:
    """Make "card" a kind of device in this process."""
    setup: Any = backend_registration._setup_privateuseone_for_python_backend
    setup(CARD, backend_module=_CardModule())
    own = torch.nn.functional.scaled_dot_product_attention

    def attention(query: Tensor, key: Tensor, value: Tensor, *args: Any, **kwargs: Any) -> Any:
        if query.device.type != CARD:
            return own(query, key, value, *args, **kwargs)
        return _Attention.apply(query, key, value)

    torch.nn.functional.scaled_dot_product_attention = attention
    # Fakes are known in the thread that made their mode; backward would have one for each device.
    torch.autograd.set_multithreading_enabled(False)


class _Attention(torch.autograd.Function):
    """Memory of a GPU's kernel (FlashAttention 2): torch would take the plain formula here, which
    materializes the scores.

    Forward keeps the output and a log-sum-exp for each row; backward adds up the queries' gradient
    in fp32, and where keys are shared by several heads it makes their gradients head by head.
    """

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        output = torch.empty_like(query[..., : value.shape[-1]])
        rows = torch.empty(query.shape[:-1], dtype=torch.float32, device=query.device)
        ctx.save_for_backward(query, key, value, output, rows)
        return output

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        query, key, value, _, rows = ctx.saved_tensors
        dots = torch.empty_like(rows)
        sums = torch.empty_like(query, dtype=torch.float32)
        made = tuple(map(torch.empty_like, (query, key, value)))
        by_head = [torch.empty_like(query) for _ in range(2 if key.shape != query.shape else 0)]
        del dots, sums, by_head
        return made


class CardCopies(SynchronousCopies):
    """Nothing to copy; from the host to the card alone."""

    def __init__(self) -> None:
        self.num_bytes = 0

    def fetch(self, target: Tensor, blocks: tuple[Tensor, ...]) -> None:
        assert target.device.type == CARD
        assert all(block.device.type == "cpu" for block in blocks)
        self.num_bytes += target.numel()


@contextlib.contextmanager
def streaming_to_the_card(model: nn.Module) -> Iterator[None]:
    """Two things that a GPU can do and fakes cannot.

    A GPU's tensor may be the `data` of a parameter of the host: here the parameter is replaced. A
    storage that is emptied stays empty: under fakes the next view fills it, so trackers are told.
    """

    def put(self: Any, tensor: Tensor) -> None:
        if self.parameter is not None:
            self.parameter = _replace(model, self.parameter, tensor)
        for owner, name in self.attributes:
            setattr(owner, name, tensor)

    own_put, own_resize = slots.Slot.put, blocks._resize
    slots.Slot.put = put  # type: ignore[method-assign]
    blocks._resize = _resize
    try:
        yield
    finally:
        slots.Slot.put = own_put  # type: ignore[method-assign]
        blocks._resize = own_resize


def _resize(flat: Tensor, num_bytes: int) -> None:
    flat.untyped_storage().resize_(num_bytes)
    for mode in _get_current_dispatch_mode_stack():
        if isinstance(mode, MemoryTracker):
            mode._book(flat, "temporaries")


def _replace(model: nn.Module, old: Tensor, data: Tensor) -> Tensor:
    parameter = nn.Parameter(data, requires_grad=old.requires_grad)
    _take_marks(parameter, old)
    for module in model.modules():
        for name, present in module._parameters.items():
            if present is old:
                module._parameters[name] = parameter
    return parameter


def _take_marks(parameter: Tensor, old: Tensor) -> None:
    # A fake's device is an attribute like any other.
    own = vars(parameter)
    own.update({name: value for name, value in vars(old).items() if name not in own})


def carry(
    model: nn.Module, device: str, stays: Callable[[Tensor], bool] = lambda parameter: False
) -> None:
    """What `model.to(device)` does, with fakes in place of values; ties stay ties."""
    carried: dict[int, tuple[Any, Tensor]] = {}
    for module in model.modules():
        for name, parameter in module._parameters.items():
            if parameter is None or stays(parameter):
                continue
            if id(parameter) not in carried:
                there = nn.Parameter(
                    _like(parameter, device), requires_grad=parameter.requires_grad
                )
                _take_marks(there, parameter)
                carried[id(parameter)] = there, parameter
            module._parameters[name] = carried[id(parameter)][0]
        for name, buffer in module._buffers.items():
            if buffer is not None:
                module._buffers[name] = _like(buffer, device)


def _like(tensor: Tensor, device: str) -> Tensor:
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=device)
