"""What of a module is streamed: its frozen matrices, and where each of them is held.

A slot is one tensor that lives in host memory and visits the device. It may be held in several
places: the `data` of a parameter, an attribute of a quantization state (bitsandbytes keeps the
scales of a 4-bit weight there, and its int8 layers hold the weight twice). Norms, biases, buffers,
trained parameters and adapters get no slot: they stay on the device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

__all__ = [
    "Slot", "adapter_parameters", "as_bytes", "from_bytes", "outside_inference", "slots_of",
    "with_successors",
]  # fmt: skip

_P = ParamSpec("_P")
_R = TypeVar("_R")


@dataclass(eq=False)
class Slot:
    """One streamed tensor.

    module, name: the parameter that it belongs to, for checks and messages.
    parameter: whose `data` is the tensor, or None where it is held by attributes alone.
    attributes: other holders, as (object, attribute name).
    followers: small tensors (object, attribute name) that the device needs beside it.
    """

    module: nn.Module
    name: str
    parameter: Tensor | None
    attributes: tuple[tuple[Any, str], ...] = ()
    followers: tuple[tuple[Any, str], ...] = ()
    home: Tensor = field(init=False)  # in host memory
    offset: int = 0  # in its block, in bytes

    def __post_init__(self) -> None:
        self.home = self.present()

    def present(self) -> Tensor:
        """The tensor that the holders hold now."""
        if self.parameter is not None:
            return self.parameter.data
        owner, name = self.attributes[0]
        tensor: Tensor = getattr(owner, name)
        return tensor

    def put(self, tensor: Tensor) -> None:
        """Make all holders hold `tensor`."""
        if self.parameter is not None:
            self.parameter.data = tensor
        for owner, name in self.attributes:
            setattr(owner, name, tensor)

    def follow(self, device: torch.device) -> None:
        """Move the small tensors beside it to `device`."""
        for owner, name in self.followers:
            tensor = getattr(owner, name)
            if tensor.device != device:
                setattr(owner, name, tensor.to(device))

    @property
    def is_lost(self) -> bool:
        """True if the module holds something else now: adapters were merged into it."""
        if self.parameter is not None:
            return self.module._parameters.get(self.name) is not self.parameter
        owner, name = self.attributes[0]
        return not isinstance(getattr(owner, name, None), Tensor)

    @property
    def num_bytes(self) -> int:
        return self.home.numel() * self.home.element_size()

    def check(self) -> None:
        """Raise RuntimeError where the parameter has become another, or is to be trained."""
        if self.is_lost:
            raise RuntimeError(
                f"the streamed parameter {self.name!r} of a {type(self.module).__name__} was "
                "replaced by one that is trained, or that cannot be streamed: undo() the "
                "streaming, and stream again"
            )
        if self.parameter is not None and self.parameter.requires_grad:
            raise RuntimeError(
                f"the streamed parameter {self.name!r} of a {type(self.module).__name__} was "
                "unfrozen, but streamed weights get no gradient: undo() the streaming, unfreeze, "
                "and stream what stays frozen"
            )


def outside_inference(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Make tensors that outlive `torch.inference_mode`, and may be written in place after it."""

    @wraps(function)
    def wrapped(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        if not torch.is_inference_mode_enabled():
            return function(*args, **kwargs)
        with torch.inference_mode(False), torch.no_grad():
            return function(*args, **kwargs)

    return wrapped


def as_bytes(tensor: Tensor) -> Tensor:
    """The bytes `[n]` of a dense tensor, in the order of its memory."""
    flat = tensor.as_strided((tensor.numel(),), (1,), tensor.storage_offset())
    return flat.view(torch.uint8)


def from_bytes(whole: Tensor, offset: int, like: Tensor) -> Tensor:
    """A tensor of the type, shape and strides of `like` over bytes of `whole`."""
    length = like.numel() * like.element_size()
    elements = whole[offset : offset + length].view(like.dtype)
    # Views of views would carry `whole`'s counter of versions; a parameter has its own.
    return elements.as_strided(like.shape, like.stride())


def adapter_parameters(root: nn.Module) -> set[int]:
    """Identities of the parameters that PEFT added: inactive ones are frozen, yet no base."""
    found: set[int] = set()
    for module in root.modules():
        names = [*getattr(module, "adapter_layer_names", ())]
        names += [*getattr(module, "other_param_names", ())]
        if hasattr(module, "modules_to_save"):
            names.append("modules_to_save")
        for name in names:
            part = getattr(module, name, None)
            if isinstance(part, (nn.Module, nn.ParameterDict)):
                found.update(map(id, part.parameters()))
    return found


def slots_of(module: nn.Module, left_out: set[int], min_bytes: int) -> list[Slot]:
    """Slots of a module and all that it contains. `left_out`: identities of other parameters."""
    found: list[Slot] = []
    seen: set[int] = set()
    for part in module.modules():
        for name, parameter in part._parameters.items():
            if parameter is None or id(parameter) in left_out or id(parameter) in seen:
                continue
            seen.add(id(parameter))
            found += _slots_of_parameter(part, name, parameter)
    return [slot for slot in found if slot.num_bytes >= min_bytes]


def with_successors(slots: list[Slot]) -> list[Slot]:
    """The slots, with those of frozen parameters in the place of the parameters that they replaced.

    Merging adapters into quantized weights makes new parameters, with scales of their own.
    """
    lost = {(id(slot.module), slot.name) for slot in slots if slot.is_lost}
    found: dict[tuple[int, str], list[Slot]] = {}
    for slot in slots:
        key = id(slot.module), slot.name
        parameter = slot.module._parameters.get(slot.name)
        if key not in lost or parameter is None:
            found.setdefault(key, []).append(slot)
        elif key not in found:
            found[key] = list(_slots_of_parameter(slot.module, slot.name, parameter)) or [slot]
    return [slot for group in found.values() for slot in group]


def _slots_of_parameter(module: nn.Module, name: str, parameter: nn.Parameter) -> Iterable[Slot]:
    if parameter.requires_grad or parameter.device.type == "meta":
        return
    if isinstance(parameter, DTensor):
        raise ValueError(
            "the model is sharded (FSDP, tensor parallelism), which places its weights by itself: "
            "use its own CPU offload, or stream an unsharded model"
        )
    if is_traceable_wrapper_subclass(parameter):
        yield from _inner_slots(module, name, parameter)
        return
    state = getattr(parameter, "quant_state", None)
    if state is not None:
        yield Slot(module, name, parameter, followers=tuple(_small_parts(state)))
        yield from _scales(module, name, state)
        return
    int8_state = getattr(module, "state", None)
    if hasattr(parameter, "CB") and hasattr(int8_state, "SCB"):
        yield from _int8_slots(module, name, parameter, int8_state)
        return
    if parameter.dim() >= 2 and _is_dense(parameter):
        yield Slot(module, name, parameter)


def _inner_slots(module: nn.Module, name: str, wrapper: Any) -> Iterator[Slot]:
    """Of tensors made of tensors (torchao's): the plain ones inside."""
    for inner_name in wrapper.__tensor_flatten__()[0]:
        inner = getattr(wrapper, inner_name)
        if is_traceable_wrapper_subclass(inner):
            yield from _inner_slots(module, name, inner)
        elif _is_dense(inner):
            yield Slot(module, name, None, ((wrapper, inner_name),))


def _scales(module: nn.Module, name: str, state: Any) -> Iterator[Slot]:
    """The scales of bitsandbytes' 4-bit blocks: an eighth of the weight, or a thirtieth nested."""
    yield Slot(module, name, None, ((state, "absmax"),))
    if getattr(state, "nested", False):
        yield Slot(module, name, None, ((state.state2, "absmax"),))


def _small_parts(state: Any) -> Iterator[tuple[Any, str]]:
    for owner in (state, getattr(state, "state2", None)):
        for name in ("code", "offset"):
            if owner is not None and isinstance(getattr(owner, name, None), Tensor):
                yield owner, name


def _int8_slots(module: Any, name: str, parameter: Any, state: Any) -> Iterator[Slot]:
    if parameter.CB is not None:
        module.init_8bit_state()
    if state.CB is None or state.has_fp16_weights:
        return
    yield Slot(module, name, parameter, ((state, "CB"),))
    yield Slot(module, name, None, ((state, "SCB"),))


def _is_dense(tensor: Tensor) -> bool:
    if _is_opaque(tensor) or tensor.layout != torch.strided or tensor.numel() == 0:
        return False
    return bool(torch.ops.aten.is_non_overlapping_and_dense.default(tensor))


def _is_opaque(tensor: Tensor) -> bool:
    """True if a tensor may have no memory of its own: it computes by itself, and is no fake."""
    own: Any = type(tensor).__torch_dispatch__
    return own != Tensor.__torch_dispatch__ and not isinstance(tensor, FakeTensor)
