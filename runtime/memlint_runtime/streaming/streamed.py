"""Frozen weights that wait in host memory and visit the device when their block computes.

What: `stream_frozen_weights(model)` moves the frozen matrices of every block (the layers of the
model's `nn.ModuleList`s) to host memory. Two buffers on the device, or `budget_bytes`, take them in
turn, ahead of use, forward and backward. The embedding is read by rows on the host, the head by
tiles of the vocabulary inside a fused loss (`fuse_causal_lm_loss`). Norms, adapters, trained
parameters and buffers stay where they are.
Why: with LoRA the frozen base is what fills the device: 16 GB of an 8B model, of which a step needs
one layer at a time.
Exact: bytes travel, nothing is computed otherwise; values and gradients are bit-equal.
Cost: each step reads the base twice over the bus (forward, backward). `plan_streaming` says from
which length on the computation hides that. Generation reads it once for every token: slow.

    model = get_peft_model(model, LoraConfig(...))
    stream_frozen_weights(model)
    trainer = SFTTrainer(model, ...)

How it works. Hooks on the modules of a block say when its weights are needed: before a forward, and
through the outputs' gradients before a backward. See `blocks` for what autograd keeps.

Named hazards, each with a test that breaks without its guard:
- Checkpointing computes a block again in the middle of its backward: the weights stay until the
  next block, and go home at the end of backward.
- Weights changed between steps through `.data` (PEFT merges so): what is on the device is trusted
  within one pass alone.
- Gradients that enter a block elsewhere than at its output (router losses): every module that
  leads to a streamed weight watches its own output.
- Losses multiply by the head's weight themselves, without calling the head (TRL's fused head,
  Liger's): it comes when what leads to it has ended.
- `.to(device)` of a trainer would bring all weights to the device: it moves the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from memlint_runtime.device_copies import Copies
from memlint_runtime.integrations import Patch, unwrap
from memlint_runtime.integrations.patching import bound_to
from memlint_runtime.streaming.blocks import Block, resident_parameters
from memlint_runtime.streaming.embedding import stream_embedding
from memlint_runtime.streaming.finding import Ends, blocks_of, shared_parameters
from memlint_runtime.streaming.head import HeadTiles, is_tiled_now
from memlint_runtime.streaming.moves import convert, expect_on_host, expect_unplaced, on_device
from memlint_runtime.streaming.order import Phase
from memlint_runtime.streaming.page_lock import PageLock
from memlint_runtime.streaming.passes import Passes
from memlint_runtime.streaming.ring import Ring
from memlint_runtime.streaming.slots import Slot, adapter_parameters, outside_inference, slots_of
from memlint_runtime.streaming.store import FileStore, HostStore, Store

__all__ = ["StreamedWeights", "stream_frozen_weights", "streamed_weights_of"]

_MARK = "memlint_streamed_weights"
_STORES: dict[str, type[HostStore] | type[FileStore]] = {"host": HostStore, "files": FileStore}


def stream_frozen_weights(
    model: nn.Module,
    *,
    buffers: int = 2,
    budget_bytes: int | None = None,
    embedding: bool = True,
    head: bool = True,
    min_bytes: int = 4096,
    blocks: Sequence[nn.Module] | None = None,
    store: Literal["host", "files"] = "host",
    copies: Copies | None = None,
) -> StreamedWeights:
    """Keep the frozen weights of a model's blocks in host memory, until undone.

    Call it when adapters are in place, or load with `load_streamed` and add adapters afterwards.

    Args:
        model: any PyTorch model with frozen weights, bare or wrapped (PEFT, DDP).
        buffers: blocks that the device holds at once, in bytes of the largest; 2 hide a copy
            behind the block that computes.
        budget_bytes: that memory in bytes instead.
        embedding: read a frozen input embedding by rows on the host.
        head: stream a frozen output head: by tiles inside a fused loss, else whole.
        min_bytes: smaller tensors stay.
        blocks: the modules that come and go as one; by default the members of the outermost
            `nn.ModuleList`s and `nn.Sequential`s.
        store: "host" gathers the weights in locked host memory; "files" leaves them in the
            memory-mapped files that they were loaded from (`load_streamed(..., store="files")`).
        copies: how bytes travel; by default side streams where the device has them.

    Returns a handle with `undo()`, which is a context manager as well, and counters.
    Raises ValueError if nothing is frozen, if the model is streamed, sharded, or placed by
    accelerate (`device_map` over several devices), if the largest block exceeds the budget, or if
    weights are to stay in files and are on a device.
    """
    if buffers < 1:
        raise ValueError(f"buffers is 1 or more, got {buffers}")
    if store not in _STORES:
        raise ValueError(f"store is 'host' or 'files', got {store!r}")
    inner = unwrap(model)
    if streamed_weights_of(inner) is not None:
        raise ValueError("the model's weights are streamed already: undo() that first")
    expect_unplaced(inner)
    modules = blocks_of(inner) if blocks is None else list(blocks)
    left_out = adapter_parameters(inner) | shared_parameters(inner, modules)
    ends = Ends(inner, left_out, embedding=embedding, head=head)
    labels = {id(module): name for name, module in inner.named_modules()}
    streamed = StreamedWeights(inner, _STORES[store]())
    try:
        for module in modules:
            slots = slots_of(module, left_out | ends.parameters, min_bytes)
            if store == "files":
                expect_on_host(slots)
            if slots:
                label = labels.get(id(module), "")
                streamed.add(label, module, slots)
        if not streamed.blocks:
            raise ValueError(
                f"{type(inner).__name__} has no blocks with frozen weights to stream: freeze the "
                "base first (get_peft_model does), or name the blocks"
            )
        largest = max(block.num_bytes for block in streamed.blocks)
        capacity = buffers * largest if budget_bytes is None else budget_bytes
        if capacity < largest:
            raise ValueError(
                f"budget_bytes holds at least the largest block, {largest} bytes, got {capacity}"
            )
        streamed.install(capacity, copies, ends)
    except BaseException:
        streamed.undo()
        raise
    return streamed


def streamed_weights_of(model: Any) -> StreamedWeights | None:
    """The handle by which a model's weights are streamed, if they are."""
    found: StreamedWeights | None = vars(unwrap(model)).get(_MARK)
    return found


class StreamedWeights(Patch):
    """Undoes the streaming by `undo()`, or at the end of a `with` block.

    blocks: what is streamed. ring: what is on the device, with its counters. head_tiles: what
    gives parts of the head to a fused loss, with its counter.
    """

    def __init__(self, model: Any, store: Store) -> None:
        super().__init__(model, "the model's frozen weights are streamed")
        self.blocks: list[Block] = []
        self.store = store
        self.ring = Ring([], 0, self.device, None, store)
        self.ends: Ends | None = None
        self.head_tiles: HeadTiles | None = None
        self._passes = Passes()
        self._head_is_read = False
        self._home_device = next(iter(model.parameters())).device
        self.on_undo(self._restore)

    @property
    def host_bytes(self) -> int:
        """Bytes of the blocks' weights, in host memory or in files."""
        return sum(block.num_bytes for block in self.blocks)

    @property
    def pages(self) -> PageLock:
        """What of host memory is locked."""
        return self.store.pages

    def add(
        self, label: str, module: nn.Module, slots: list[Slot], *, is_head: bool = False
    ) -> None:
        """Stream these slots as one more block."""
        index = len(self.blocks)
        self.blocks.append(Block(index, label, module, slots, self.store, is_head=is_head))

    def device(self) -> torch.device:
        """Where what is not streamed lives now, and so where blocks compute."""
        found = next(resident_parameters(self.owner, self._slots()), None)
        return self._home_device if found is None else found.device

    def install(self, capacity_bytes: int, copies: Copies | None, ends: Ends) -> None:
        """Put the hooks in place."""
        self.ends = ends
        if ends.head is not None:
            slot = Slot(ends.head, "weight", ends.head._parameters["weight"])
            self.add("the output head", ends.head, [slot], is_head=True)
        self.ring = Ring(self.blocks, capacity_bytes, self.device, copies, self.store)
        if ends.head is not None:
            self.head_tiles = HeadTiles(self.blocks[-1], self.ring, self.owner)
            self.head_tiles.install(self)
        if ends.embedding is not None:
            stream_embedding(self, ends.embedding, self.device, self._rows(ends))
        for block in self.blocks:
            self._watch_block(block)
        self._watch_passes()
        if ends.head is not None:
            self._watch_readers_of_head(ends.head)
        self._guard_moves()
        self._guard_state()
        self._ignore_in_ddp()
        self.replace(self.owner, _MARK, self)

    def _rows(self, ends: Ends) -> Callable[[], Tensor]:
        """What gives the embedding's weights on the host."""
        if ends.tied:
            return partial(_home_of_block, self.blocks[-1])
        assert ends.embedding is not None
        ends.rows = Slot(ends.embedding, "weight", ends.embedding._parameters["weight"])
        return partial(_home_of_slot, ends.rows)

    # -- when weights are needed -------------------------------------------------------------

    def use(self, block: Block) -> None:
        """Have a block's weights where its parameters are read."""
        backward = torch._C._current_graph_task_id()
        phase: Phase
        if backward != -1:
            phase = "backward"
            if self._passes.enter_backward(backward, self._release_all):
                self.store.check()
        else:
            self._passes.expect_no_backward()
            phase = "forward" if torch.is_grad_enabled() else "without gradient"
        self.ring.use(block, phase)

    def _watch_block(self, block: Block) -> None:
        owners = {id(slot.module) for slot in block.slots}
        for module in block.module.modules():
            if any(id(part) in owners for part in module.modules()):
                before = module.register_forward_pre_hook(partial(self._before, block))
                after = module.register_forward_hook(
                    partial(self._after, block), always_call=module is block.module
                )
                self.on_undo(before.remove)
                self.on_undo(after.remove)

    def _before(self, block: Block, module: Any, inputs: Any) -> None:
        if torch.compiler.is_compiling():
            _refuse_compilation()
        if not is_tiled_now(module):
            if block.is_head:
                self._head_is_read = False
            self.use(block)

    def _after(self, block: Block, module: Any, inputs: Any, outputs: Any) -> None:
        if is_tiled_now(module):
            return
        self._use_before_backward_of(outputs, block)
        # While backward runs, a block that was computed again is needed on.
        if module is block.module and torch._C._current_graph_task_id() == -1:
            block.go_home()

    def _use_before_backward_of(self, outputs: Any, block: Block) -> None:
        if torch.is_grad_enabled():
            for tensor in tree_leaves(outputs):
                if isinstance(tensor, Tensor) and tensor.grad_fn is not None:
                    register: Any = tensor.register_hook  # untyped in torch
                    register(partial(_use_before_backward, self, block, block.replacements))

    def _watch_readers_of_head(self, head: nn.Module) -> None:
        """The smallest module with blocks and the head may read the head's weight in its forward,
        when its parts with blocks have ended."""
        wanted = {id(block.module) for block in self.blocks[:-1]}

        def leads_to_blocks(module: nn.Module) -> bool:
            return any(id(part) in wanted for part in module.modules())

        def leads_to_head(module: nn.Module) -> bool:
            return any(part is head for part in module.modules())

        readers = [m for m in self.owner.modules() if leads_to_blocks(m) and leads_to_head(m)]
        for part in readers[-1].children() if readers else ():
            if leads_to_blocks(part):
                ended = part.register_forward_hook(partial(self._before_reading_head, readers[-1]))
                self.on_undo(ended.remove)
        if readers:
            after = readers[-1].register_forward_hook(self._after_reading_head, prepend=True)
            self.on_undo(after.remove)

    def _before_reading_head(self, reader: nn.Module, *ignored: Any) -> None:
        head = self.blocks[-1]
        inside = torch._C._current_graph_task_id() == -1 and self._passes.is_open(reader)
        if inside and not is_tiled_now(head.module):
            self._head_is_read = True
            self.use(head)

    def _after_reading_head(self, module: Any, inputs: Any, outputs: Any) -> None:
        if self._head_is_read:
            self._head_is_read = False
            self._use_before_backward_of(outputs, self.blocks[-1])
            self.blocks[-1].go_home()

    def _watch_passes(self) -> None:
        inside = {id(part) for block in self.blocks for part in block.module.modules()}
        wanted = {id(block.module) for block in self.blocks}
        for module in self.owner.modules():
            if id(module) in inside or isinstance(module, nn.ModuleList):
                continue
            if any(id(part) in wanted for part in module.modules()):
                before = module.register_forward_pre_hook(
                    self._begin_pass, prepend=True, with_kwargs=True
                )
                after = module.register_forward_hook(self._end_pass, always_call=True)
                self.on_undo(before.remove)
                self.on_undo(after.remove)

    def _begin_pass(self, module: Any, args: Any, kwargs: Any) -> Any:
        if torch.compiler.is_compiling():
            _refuse_compilation()
        if torch._C._current_graph_task_id() != -1:
            return None
        if not self._passes.begin(module):
            return None
        self._release_all()
        self.store.check()
        self.ring.fetch_ahead()
        return on_device((args, kwargs), self.device())

    def _end_pass(self, module: Any, args: Any, outputs: Any) -> None:
        if torch._C._current_graph_task_id() != -1:
            return
        if self._passes.end(module):
            self.ring.leave()
            self._drop_tiles()
            if not torch.is_grad_enabled():
                self._release_all()

    def _release_all(self) -> None:
        """Give all memory on the device back, and read no further ahead."""
        self.ring.release_all()
        self._drop_tiles()
        self.store.forget()

    def _drop_tiles(self) -> None:
        if self.head_tiles is not None:
            self.head_tiles.release()

    # -- what others do with the model -------------------------------------------------------

    def _guard_moves(self) -> None:
        """Let `.to(device)` move what is not streamed."""
        owners: dict[int, nn.Module] = {}
        for slot in self._slots():
            owners[id(slot.module)] = slot.module
        if self.ends is not None and self.ends.embedding is not None:
            owners[id(self.ends.embedding)] = self.ends.embedding
        for module in owners.values():
            self.replace(module, "_apply", bound_to(module, "_apply", _moving_the_rest))
            vars(module)[_MARK] = self
            self.on_undo(partial(vars(module).pop, _MARK, None))
            if getattr(module, "support_avx512bf16_for_cpu", False):
                # bitsandbytes would repack the weights in evaluation.
                self.replace(module, "support_avx512bf16_for_cpu", False)

    def _guard_state(self) -> None:
        """Let `state_dict` read the host's memory."""
        for block in self.blocks:
            for module in {id(slot.module): slot.module for slot in block.slots}.values():
                register: Any = module.register_state_dict_pre_hook  # untyped in torch
                hook = register(partial(_go_home, block))
                self.on_undo(hook.remove)

    def _ignore_in_ddp(self) -> None:
        """DDP wants all parameters on one device, and sends them to all ranks; these it leaves."""
        names = []
        streamed = {id(slot.parameter) for slot in self._slots()}
        for name, parameter in self.owner.named_parameters(remove_duplicate=False):
            if id(parameter) in streamed:
                names += _names_under_peft(name)
        key = "_ddp_params_and_buffers_to_ignore"
        self.replace(self.owner, key, [*getattr(self.owner, key, ()), *names])

    def is_streamed(self, parameter: Any) -> bool:
        return any(slot.parameter is parameter for slot in self._slots())

    def moved(self, module: nn.Module, function: Callable[[Tensor], Tensor]) -> None:
        """What `module._apply(function)` means for the streamed weights of `module`: a new type."""
        rows = None if self.ends is None else self.ends.rows
        if rows is not None and rows.module is module:
            convert(rows, function)
        for block in self.blocks:
            changed = False
            for slot in block.slots:
                if slot.module is not module or slot.parameter is None:
                    continue
                block.go_home()
                changed |= convert(slot, function)
            if changed:
                block.release()
                block.pack()

    def _slots(self) -> Iterator[Slot]:
        for block in self.blocks:
            yield from block.slots
        if self.ends is not None and self.ends.rows is not None:
            yield self.ends.rows

    def _restore(self) -> None:
        """Bring all weights to the device, for good."""
        self._release_all()
        for block in self.blocks:
            block.forget_lost()
            device = block.device(self.device())
            block.settle(device, self.ring.copies_on(device))
        if self.ends is not None and self.ends.rows is not None:
            rows = self.ends.rows
            rows.put(rows.home.to(self.device()))
        self.store.release()
        self.ring.memory.release()
        self.blocks = []
        self.ring.blocks = []

    def __deepcopy__(self, memo: Any) -> Any:
        raise ValueError(
            "the model's frozen weights are streamed: a copy would need as much host memory again. "
            "With adapters the base itself is the reference (ref_model=None); else undo() before "
            "copying"
        )


def _home_of_block(block: Block) -> Tensor:
    block.refresh()
    return block.slots[0].home


@outside_inference
def _home_of_slot(slot: Slot) -> Tensor:
    present = slot.present()
    if present is not slot.home:
        slot.check()
        slot.home = present.to("cpu")
        slot.put(slot.home)
    return slot.home


def _use_before_backward(
    streamed: StreamedWeights, block: Block, replacements: int, gradient: Tensor
) -> None:
    if not streamed.active:
        return
    if block.replacements != replacements:
        raise RuntimeError(
            f"the streamed weights of {block.label or type(block.module).__name__} became others "
            "between forward and backward (converted, assigned or merged), and the former ones, "
            "which this backward needs, are gone: call backward before"
        )
    # Autograd runs backward passes with gradients on only to differentiate them again.
    if torch.is_grad_enabled():
        raise RuntimeError(
            "the model's frozen weights are streamed, and are gone when gradients are "
            "differentiated again: call backward without create_graph=True, or undo() the "
            "streaming where a loss needs second derivatives (gradient penalties)"
        )
    streamed.use(block)


def _go_home(block: Block, *ignored: Any) -> None:
    block.go_home()


def _refuse_compilation() -> None:
    raise RuntimeError(
        "the model's frozen weights are streamed, and torch.compile takes the buffers that they "
        "visit for the weights themselves: leave the model uncompiled (torch_compile=False), or "
        "undo() the streaming"
    )


# Dynamo calls it where it would trace it, so that the error is this one.
_refuse_compilation._torchdynamo_disable = True  # type: ignore[attr-defined]


def _moving_the_rest(own: Callable[..., Any]) -> Callable[..., Any]:
    def _apply(self: Any, function: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        streamed: StreamedWeights | None = vars(self).get(_MARK)
        if streamed is None:
            return own(self, function, recurse)
        before = dict(self._parameters)
        for name, parameter in before.items():
            if streamed.is_streamed(parameter):
                del self._parameters[name]
        try:
            result = own(self, function, recurse)
        finally:
            # In their former order, which state_dict follows.
            after = dict(self._parameters)
            self._parameters.clear()
            self._parameters.update({name: after.get(name, before[name]) for name in before})
        streamed.moved(self, function)
        return result

    return _apply


def _names_under_peft(name: str) -> list[str]:
    """A parameter's name, and those that PEFT's wrappers around it would give it."""
    prefix, _, last = name.rpartition(".")
    wrapped = f"{prefix}.base_layer.{last}"
    return [outer + inner for outer in ("", "base_model.model.") for inner in (name, wrapped)]
