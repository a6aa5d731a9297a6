"""A recording of one block's operations, replayed to see which bytes live at once.

Peak memory is a question of lifetimes: which tensors autograd keeps for backward, which ones a
Python frame still holds, and which gradients exist beside them. A ``Tape`` records the operations
of one block (a decoder layer, a loss) with the tensors that each keeps; ``lifetimes`` replays them.
"""

from memlint.memory.lifetimes import Lifetimes, Moment, Operation, Storage, Tensor, Trace, Value
from memlint.source.record import Record


class Replay(Record):
    """What one pass over a block costs.

    forward: fullest moment of the forward, the block's input included.
    backward: fullest moment of the backward: saved tensors, gradients and scratch of this block.
    saved: bytes kept between the two, the input included where it is kept.
    weight_gradients: bytes of gradients of the block's own weights, as autograd makes them.
    output: bytes of the block's output.
    stashed: bytes of ``saved`` that live as long as the graph does, not until backward used them.
    held: bytes that the script's own names hold until the next step makes new ones.
    """

    forward: Moment
    backward: Moment
    saved: int
    saved_tensors: tuple[Tensor, ...]
    weight_gradients: int
    output: int
    stashed: int = 0
    held: int = 0


class Tape:
    """Records operations in program order; ``replay`` gives their memory."""

    def __init__(self) -> None:
        self._operations: list[Operation] = []
        self._inputs: list[Value] = []
        self._held: list[Storage] = []
        self._named: dict[int, Storage] = {}
        self._repeat_from = 0
        self._stashed: dict[int, Storage] = {}

    def input(self, name: str, elements: int, width: int, *, grad: bool = True) -> Value:
        """A tensor that exists before the block."""
        value = Value(Storage(name, elements * width, "activations"), elements, width, grad)
        self._inputs.append(value)
        return value

    def op(
        self,
        name: str,
        inputs: tuple[Value, ...],
        elements: int,
        width: int,
        *,
        saves: tuple[Value, ...] = (),
        keeps: int = 0,
        scratch: int = 0,
        backward_scratch: int = 0,
        weight_bytes: int = 0,
        kind: str = "activations",
        grad: bool | None = None,
        saves_output: bool = False,
    ) -> Value:
        """Record an operation that makes a new tensor.

        Args:
            saves: tensors kept for backward.
            keeps: bytes of further tensors made here and kept for backward (a mask, statistics).
            scratch, backward_scratch: bytes needed only while it runs.
            weight_bytes: gradient of its weight, which outlives the block.
            grad: whether backward reaches the output; by default, as any input.
        """
        needs = any(value.grad for value in inputs) or weight_bytes > 0 if grad is None else grad
        output = Value(Storage(name, elements * width, kind), elements, width, needs)
        kept: list[Storage] = []
        if needs:
            kept = [value.storage for value in saves]
            if saves_output:
                kept.append(output.storage)
        index = len(self._operations)
        for value in inputs:
            value.storage.last = max(value.storage.last, index)
        output.storage.last = index
        if keeps and needs:
            extra = Storage(f"{name}, kept", keeps, kind)
            extra.last = index
            kept.append(extra)
        elif keeps:
            scratch += keeps
        self._operations.append(
            Operation(
                name, inputs, output, tuple(kept), scratch, backward_scratch, False, weight_bytes
            )
        )
        return output

    def view(self, value: Value, elements: int | None = None) -> Value:
        """Another shape of the same storage; its gradient is a view as well."""
        output = Value(
            value.storage, value.elements if elements is None else elements, value.width, value.grad
        )
        self._operations.append(Operation("view", (value,), output, (), 0, 0, True, 0))
        return output

    def halves(self, value: Value) -> tuple[Value, Value]:
        """Both halves of a storage; their gradients are joined into one of the whole."""
        parts = self.view(value, value.elements // 2), self.view(value, value.elements // 2)
        self._operations[-2].name = "joined"
        return parts

    def keep(self, name: str, size: int, kind: str) -> None:
        """The last operation also makes and keeps this much for backward."""
        operation = self._operations[-1]
        extra = Storage(name, size, kind)
        extra.last = len(self._operations) - 1
        operation.saves = (*operation.saves, extra)

    def stash(self, value: Value) -> None:
        """The last operation keeps this as an attribute of its node, which dies with the graph."""
        self._stashed[id(value.storage)] = value.storage

    def start_repeat(self) -> None:
        """What follows, up to ``repeat``, happens several times in a row."""
        self._repeat_from = len(self._operations)

    def repeat(self, times: int) -> None:
        """Count what the stretch saves, and its weights' gradients, ``times`` over.

        Its other tensors die before the next turn, and are counted once.
        """
        stretch = self._operations[self._repeat_from :]
        seen: set[int] = set()
        outside = {id(value.storage) for value in self._inputs}
        outside |= {id(one.output.storage) for one in self._operations[: self._repeat_from]}
        extra = 0
        for operation in stretch:
            extra_weights = operation.weight_bytes * (times - 1)
            operation.weight_bytes += extra_weights
            for storage in operation.saves:
                if id(storage) not in seen and id(storage) not in outside:
                    seen.add(id(storage))
                    extra += storage.bytes * (times - 1)
        if extra and stretch:
            first = stretch[0]
            kept = Storage("saved by the other experts", extra, "activations")
            kept.last = self._repeat_from
            first.saves = (*first.saves, kept)

    def add(self, name: str, left: Value, right: Value, *, fresh: bool = True) -> Value:
        """left + right: keeps nothing; both get the same gradient. In place if not ``fresh``."""
        width = max(left.width, right.width) if fresh else left.width
        made = Storage(name, left.elements * width, "activations") if fresh else left.storage
        output = Value(made, left.elements, width, left.grad or right.grad)
        self._operations.append(Operation(name, (left, right), output, (), 0, 0, True, 0))
        self.touch(left, right, output)
        return output

    def touch(self, *values: Value) -> None:
        """A Python frame holds these tensors up to here."""
        for value in values:
            value.storage.last = max(value.storage.last, len(self._operations) - 1)

    def hold(self, *values: Value) -> None:
        """Something holds these tensors until backward is over."""
        self._held.extend(value.storage for value in values)

    def name(self, *values: Value) -> None:
        """The script has a name for these tensors, which holds them until it is assigned again."""
        self.hold(*values)
        self._named.update((id(value.storage), value.storage) for value in values)

    def replay(self, output: Value) -> Replay:
        """Forward and backward of the whole recording, from ``output``'s gradient on."""
        output.storage.last = len(self._operations)
        lifetimes = Lifetimes(self._operations, self._inputs, self._held)
        live: dict[int, Storage] = {}
        forward = lifetimes.forward(live)
        saved = tuple(
            sorted(
                (Tensor(s.name, s.bytes, s.kind) for s in live.values() if s is not output.storage),
                key=lambda tensor: -tensor.bytes,
            )
        )
        if lifetimes.is_kept(output.storage):
            saved = (*saved, Tensor(output.storage.name, output.storage.bytes, "activations"))
        else:
            live.pop(id(output.storage), None)
        backward, weights = lifetimes.backward(live, output)
        return Replay(
            forward=forward,
            backward=backward,
            saved=sum(tensor.bytes for tensor in saved),
            saved_tensors=saved,
            weight_gradients=weights,
            output=output.storage.bytes,
            stashed=sum(storage.bytes for storage in self._stashed.values()),
            held=sum(storage.bytes for storage in self._named.values()),
        )

    def allocations(self) -> tuple[Tensor, ...]:
        """Every single tensor that the recording allocates, with its arithmetic."""
        tensors: list[Tensor] = []
        for operation in self._operations:
            if operation.alias and any(
                value.storage is operation.output.storage for value in operation.inputs
            ):
                continue
            output = operation.output
            sizes = f"{output.elements} x {output.width} bytes"
            storage = output.storage
            tensors.append(Tensor(storage.name, storage.bytes, storage.kind, sizes))
            if output.grad:
                name = f"gradient of {storage.name}"
                tensors.append(Tensor(name, storage.bytes, "activation gradients", sizes))
            if operation.weight_bytes:
                name = f"gradient of the weight of {operation.name}"
                tensors.append(Tensor(name, operation.weight_bytes, "gradients"))
            tensors.extend(
                Tensor(f"workspace of {operation.name}", scratch, "temporaries")
                for scratch in {operation.scratch, operation.backward_scratch} - {0}
            )
            tensors.extend(
                Tensor(kept.name, kept.bytes, kept.kind)
                for kept in operation.saves
                if kept.name.endswith((", kept", "dtype"))
            )
        return tuple(tensors)

    def trace(self, output: Value) -> Trace:
        """The order of allocations and releases, as ``Lifetimes.trace`` says."""
        return Lifetimes(self._operations, self._inputs, self._held).trace(output)
