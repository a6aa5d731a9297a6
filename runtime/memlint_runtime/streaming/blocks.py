"""A block of streamed weights: its bytes in a store, and one storage on the device.

The storage on the device is the same object as long as the block lives; it has memory while the
block is resident, and none while it is not. So whatever holds a view of a weight (autograd's saved
`weight.t()`, bitsandbytes' `ctx.tensors`) needs no hook: in backward the storage is filled again
with the same bytes before the view is read. FSDP frees and fills its gathered weights likewise.

Away from its own forward and backward, a block's parameters hold the store's memory: `state_dict`,
`save_pretrained` and merging read, and write, the weights themselves.

Named hazards, each with a test that breaks without its guard:
- Bytes written by a copy must not count as a change of the weights: copies go through a tensor
  with a version counter of its own.
- A weight changed in place on the device would be lost: its version counter is compared when it
  goes home, and the host's bytes are renewed.
- Memory freed under a copy: a copy under way is waited for before its target is freed.
- Several streams that compute with one block: each waits for the copy, and the memory is used anew
  after all of them.
- Weights that a merge put in the place of streamed ones: they stream in their turn. What backward
  still wanted of the former ones is gone, and it says so.
- On a GPU, activations that would take a piece of what a block has left, so that the next one needs
  new memory, at the limit after a flush of the cache: `RingMemory` is a pool of their own. What it
  has taken stays with it from step to step until the streaming is undone.
- Memory made in `torch.inference_mode` could not be written later: it is made as if outside.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from memlint_runtime.device_copies import Copies
from memlint_runtime.streaming.slots import Slot, from_bytes, outside_inference, with_successors
from memlint_runtime.streaming.store import Store

__all__ = ["ALIGNMENT", "Block", "RingMemory", "resident_parameters"]

ALIGNMENT = 256


class RingMemory:
    """A pool for each GPU, made when it is first asked for."""

    def __init__(self) -> None:
        self._pools: dict[torch.device, Any] = {}

    def on(self, device: torch.device) -> AbstractContextManager[Any]:
        """Within it, what is allocated on `device` lies in the pool."""
        if device.type != "cuda" or not _has_pools():
            return nullcontext()
        if device not in self._pools:
            self._pools[device] = torch.cuda.MemPool()
        pools: AbstractContextManager[Any] = torch.cuda.use_mem_pool(self._pools[device], device)
        return pools

    def release(self) -> None:
        """Give the pools back: nothing of them is in use."""
        self._pools.clear()


def _has_pools() -> bool:
    """True if torch's own allocator is at work, with segments of fixed size: segments that grow
    leave no gaps, and take no pools in every release."""
    settings = ",".join(os.environ.get(f"PYTORCH_{name}ALLOC_CONF", "") for name in ("", "CUDA_"))
    if "expandable_segments:true" in settings.replace(" ", "").lower():
        return False
    return bool(torch.cuda.get_allocator_backend() == "native")


class Block:
    """Weights that come and go together.

    index: its place among the blocks. label: its name in the model. store: where its bytes wait.
    is_head: whether it is the output head. num_bytes: of all slots, each at its place.
    resident: whether the device has them, or is getting them. on_device: whether the parameters
    hold the device's memory. replacements: how often other weights took the place of some that a
    backward may still want.
    """

    def __init__(
        self,
        index: int,
        label: str,
        module: nn.Module,
        slots: list[Slot],
        store: Store,
        *,
        is_head: bool = False,
    ) -> None:
        self.index = index
        self.label = label
        self.module = module
        self.slots = slots
        self.store = store
        self.is_head = is_head
        self.resident = False
        self.on_device = False
        self.copies: Copies | None = None
        self.replacements = 0
        self._ticket: Any = None
        self._flat: Tensor | None = None
        self._versions: list[int] = []
        self.pack()

    @outside_inference
    def pack(self) -> None:
        """Keep what the holders hold now."""
        offset = 0
        for slot in self.slots:
            slot.home = slot.present()
            slot.offset = offset
            offset += -(-slot.num_bytes // ALIGNMENT) * ALIGNMENT
        self.num_bytes = offset
        self.store.take(self)
        # Memory that the device has is left to what was saved of it.
        self.replacements += self._flat is not None and not self.resident
        self.resident = self.on_device = False
        self._flat = None

    def device(self, default: torch.device) -> torch.device:
        """Where the block computes: with those of its own parameters that stay there.

        Raises RuntimeError if these are on several devices.
        """
        places = {parameter.device for parameter in resident_parameters(self.module, self.slots)}
        if len(places) > 1:
            names = ", ".join(sorted(map(str, places)))
            raise RuntimeError(
                f"{self.label or type(self.module).__name__} streams its frozen weights, and its "
                f"other parameters are on {names}: move the model to one device, "
                "model.to(device), after the adapters are added"
            )
        return places.pop() if places else default

    # -- the device's memory -----------------------------------------------------------------

    @outside_inference
    def fetch(self, device: torch.device, copies: Copies, memory: RingMemory | None = None) -> None:
        """Start to copy the weights to `device`, into the ring's memory if it is given."""
        self.refresh()
        for slot in self.slots:
            slot.check()
        with nullcontext() if memory is None else memory.on(device):
            if self._flat is None or self._flat.device != device:
                self._flat = torch.empty(self.num_bytes, dtype=torch.uint8, device=device)
            elif not self.resident:
                _resize(self._flat, self.num_bytes)
        self.copies = copies
        self._ticket = self.store.send(self, self._flat, copies)
        self.resident = True

    def arrive(self) -> None:
        """Let the stream that computes now go on only after the copy."""
        if self.resident and self.copies is not None:
            self.copies.wait(self._ticket)

    def use(self) -> None:
        """Make the parameters hold the device's memory."""
        if self.on_device:
            return
        for slot in self.slots:
            slot.check()
        self.arrive()
        assert self._flat is not None
        self._versions.clear()
        for slot in self.slots:
            slot.put(from_bytes(self._flat, slot.offset, slot.home))
            slot.follow(self._flat.device)
            self._versions.append(_version(slot))
        self.on_device = True

    def go_home(self) -> None:
        """Make the parameters hold the store's memory, and write back what was changed."""
        if not self.on_device:
            return
        assert self._flat is not None
        self.on_device = False
        replaced = False
        for slot, version in zip(self.slots, self._versions, strict=True):
            if not _shares(slot.present(), self._flat):
                replaced = True
                continue
            if _version(slot) != version:
                slot.home.copy_(slot.present())
                self.store.forget(self)
            slot.put(slot.home)
        if replaced:
            # What was saved of the former weights keeps their memory.
            self.pack()

    def release(self) -> None:
        """Give the device's memory back."""
        if self.resident:
            self.go_home()
        if not self.resident:
            return
        self.arrive()
        if self._flat is not None:
            if self.copies is not None:
                self.copies.let_go(self._ticket)
            _resize(self._flat, 0)
        self.resident = False

    def settle(self, device: torch.device, copies: Copies) -> None:
        """Stay on `device` for good, in memory that graphs of former passes share."""
        self.release()
        self.fetch(device, copies)
        self.use()
        if device.type not in ("cpu", "meta"):
            torch.get_device_module(device.type).synchronize(device)

    def forget_lost(self) -> None:
        """Leave alone what replaced a weight and is trained: it stays where it is."""
        self.refresh()
        if any(slot.is_lost for slot in self.slots):
            self.slots = [slot for slot in self.slots if not slot.is_lost]
            self.pack()

    def refresh(self) -> None:
        """Take over tensors that were assigned to the parameters since the last use, and frozen
        parameters that took the place of streamed ones."""
        if self.on_device:
            return
        if any(slot.is_lost for slot in self.slots):
            self.slots = with_successors(self.slots)
            self.pack()
        if any(not slot.is_lost and not _same(slot.present(), slot.home) for slot in self.slots):
            self.pack()


def resident_parameters(root: nn.Module, slots: Iterable[Slot]) -> Iterator[Tensor]:
    """The parameters of `root` that no slot holds, on a real device.

    They are looked up each time: adapters come and go, and a conversion may replace parameters.
    """
    streamed = {id(slot.parameter) for slot in slots if slot.parameter is not None}
    for parameter in root.parameters():
        if id(parameter) not in streamed and parameter.device.type != "meta":
            yield parameter


def _version(slot: Slot) -> int:
    return slot.parameter._version if slot.parameter is not None else 0


def _shares(tensor: Tensor, flat: Tensor) -> bool:
    return bool(tensor.untyped_storage()._cdata == flat.untyped_storage()._cdata)


def _same(tensor: Tensor, home: Tensor) -> bool:
    return _shares(tensor, home) and tensor.dtype == home.dtype and tensor.shape == home.shape


def _resize(flat: Tensor, num_bytes: int) -> None:
    flat.untyped_storage().resize_(num_bytes)
    # Trackers of memory see a storage's size when an operation takes a tensor of it.
    flat.detach()
