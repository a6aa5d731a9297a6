"""A recording of one block's operations, replayed to see which bytes live at once.

Peak memory is a question of lifetimes: which tensors autograd keeps for backward, which ones a
Python frame still holds, and which gradients exist beside them. A ``Tape`` records the operations
of one block (a decoder layer, a loss) with the tensors that each keeps, then replays them:
forward, where a tensor dies after its last use unless it is saved; and backward, where the
gradient of each input is allocated before the operation's saved tensors are freed. The rules are
those of torch's autograd engine: saved tensors die when their node has run, a second gradient of
the same tensor is added into the first in place, and views share storage and gradient.
"""

from __future__ import annotations

from memlint.source.record import Plain

ROUND = 512  # the allocator hands out multiples of 512 bytes


class Storage:
    """Bytes that live and die as one; views of a tensor share it."""

    __slots__ = ("bytes", "kind", "last", "name", "saves")

    def __init__(self, name: str, size: int, kind: str) -> None:
        self.name = name
        self.bytes = -(-size // ROUND) * ROUND
        self.kind = kind
        self.last = -1
        self.saves = 0


class Value:
    """A tensor: ``elements`` numbers of ``width`` bytes; ``grad`` if backward reaches it."""

    __slots__ = ("elements", "grad", "gradient", "storage", "width")

    def __init__(self, storage: Storage, elements: int, width: int, grad: bool) -> None:
        self.storage = storage
        self.elements = elements
        self.width = width
        self.grad = grad
        self.gradient: Gradient | None = None

    @property
    def bytes(self) -> int:
        return self.elements * self.width


class Gradient:
    """A gradient's storage and how many tensors' gradients it is."""

    __slots__ = ("owners", "storage")

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self.owners = 1


class Operation:
    """One call: what it reads, makes, keeps for backward, and needs beside these meanwhile."""

    __slots__ = (
        "alias",
        "backward_scratch",
        "inputs",
        "name",
        "output",
        "saves",
        "scratch",
        "weight_bytes",
    )

    def __init__(
        self,
        name: str,
        inputs: tuple[Value, ...],
        output: Value,
        saves: tuple[Storage, ...],
        scratch: int,
        backward_scratch: int,
        alias: bool,
        weight_bytes: int,
    ) -> None:
        self.name = name
        self.inputs = inputs
        self.output = output
        self.saves = saves
        self.scratch = scratch
        self.backward_scratch = backward_scratch
        self.alias = alias
        self.weight_bytes = weight_bytes


class Tensor(Plain):
    """A tensor that lives at a moment: its name, bytes, kind, and how the bytes come about."""

    name: str
    bytes: int
    kind: str
    arithmetic: str = ""


class Moment(Plain):
    """The fullest moment of a replay: the bytes and what they are, largest first."""

    bytes: int
    operation: str
    tensors: tuple[Tensor, ...] = ()

    def by_kind(self) -> dict[str, int]:
        kinds: dict[str, int] = {}
        for tensor in self.tensors:
            kinds[tensor.kind] = kinds.get(tensor.kind, 0) + tensor.bytes
        return kinds


class Replay(Plain):
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


class Trace(Plain):
    """Allocations (number, bytes) and releases (number, 0) in order.

    plain: a forward pass that keeps nothing but its input. saving: one that keeps what backward
    needs. backward: the backward pass; weight gradients have numbers below -10 and stay.
    """

    plain: tuple[tuple[int, int], ...]
    saving: tuple[tuple[int, int], ...]
    backward: tuple[tuple[int, int], ...]


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
            value.storage,
            value.elements if elements is None else elements,
            value.width,
            value.grad,
        )
        self._operations.append(Operation("view", (value,), output, (), 0, 0, True, 0))
        return output

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
        for operation in self._operations[: self._repeat_from]:
            outside.add(id(operation.output.storage))
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
        width = max(left.width, right.width)
        if not fresh:
            output = Value(left.storage, left.elements, left.width, left.grad or right.grad)
            index = len(self._operations)
            left.storage.last = max(left.storage.last, index)
            right.storage.last = max(right.storage.last, index)
            self._operations.append(Operation(name, (left, right), output, (), 0, 0, True, 0))
            return output
        output = Value(
            Storage(name, left.elements * width, "activations"),
            left.elements,
            width,
            left.grad or right.grad,
        )
        index = len(self._operations)
        left.storage.last = max(left.storage.last, index)
        right.storage.last = max(right.storage.last, index)
        output.storage.last = index
        self._operations.append(Operation(name, (left, right), output, (), 0, 0, True, 0))
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
        for operation in self._operations:
            for storage in operation.saves:
                storage.saves += 1
        for storage in self._held:
            storage.saves += 1
        output.storage.last = len(self._operations)
        live: dict[int, Storage] = {}
        forward = self._forward(live, output)
        saved = tuple(
            sorted(
                (Tensor(s.name, s.bytes, s.kind) for s in live.values() if s is not output.storage),
                key=lambda tensor: -tensor.bytes,
            )
        )
        if output.storage.saves:
            saved = (*saved, Tensor(output.storage.name, output.storage.bytes, "activations"))
        else:
            live.pop(id(output.storage), None)
        backward, weights = self._backward(live, output)
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
        """The order of allocations and releases: forward alone, with saving, and backward.

        Numbers name storages: 0 the input, 1 the output, -1 and -2 the gradients of the input and
        of the output. Call before ``replay``, which uses the recording up.
        """
        numbers: dict[int, int] = {}
        for index, value in enumerate(self._inputs):
            numbers[id(value.storage)] = 0 if index == 0 else 2 + index
        numbers[id(output.storage)] = 1
        plain = self._events(output, numbers, saving=False)
        saving = self._events(output, numbers, saving=True)
        return Trace(tuple(plain), tuple(saving), tuple(self._backward_events(output, numbers)))

    def _events(
        self, output: Value, numbers: dict[int, int], *, saving: bool
    ) -> list[tuple[int, int]]:
        events: list[tuple[int, int]] = []
        saved = {id(s) for operation in self._operations for s in operation.saves}
        saved.update(id(storage) for storage in self._held)
        outside = {id(value.storage) for value in self._inputs} | {id(output.storage)}
        made: set[int] = set(outside - {id(output.storage)})
        dying: dict[int, list[Storage]] = {}
        seen: set[int] = set()
        for operation in self._operations:
            _die(dying, seen, operation.output.storage)
            for storage in operation.saves:
                _die(dying, seen, storage)
        for index, operation in enumerate(self._operations):
            for storage in (operation.output.storage, *operation.saves):
                if id(storage) not in made and storage.last >= index:
                    made.add(id(storage))
                    events.append((_number(numbers, storage), storage.bytes))
            if operation.scratch:
                number = 1000000 + index
                events.append((number, operation.scratch))
                events.append((number, 0))
            for storage in dying.get(index, ()):
                if id(storage) in outside or (saving and id(storage) in saved):
                    continue
                events.append((_number(numbers, storage), 0))
        return events

    def _backward_events(self, output: Value, numbers: dict[int, int]) -> list[tuple[int, int]]:
        events: list[tuple[int, int]] = []
        saves: dict[int, int] = {}
        for operation in self._operations:
            for storage in operation.saves:
                saves[id(storage)] = saves.get(id(storage), 0) + 1
        owners: dict[int, int] = {}
        gradients: dict[int, int] = {}
        if output.grad:
            gradients[id(output)] = -2
            owners[-2] = 1
        inputs = {id(value): value for value in self._inputs[:1]}
        fresh = 2000000
        for operation in reversed(self._operations):
            result = operation.output
            mine = gradients.pop(id(result), None)
            if mine is None:
                continue
            spare: list[int] = []
            for value in operation.inputs:
                if not value.grad:
                    continue
                if operation.alias and value.bytes == result.bytes:
                    if id(value) not in gradients:
                        gradients[id(value)] = mine
                        owners[mine] += 1
                    continue
                fresh += 1
                number = fresh
                if id(value) in gradients:
                    spare.append(number)
                else:
                    gradients[id(value)] = number
                    owners[number] = 1
                events.append((number, value.bytes))
            if operation.weight_bytes:
                events.append((-10 - fresh, operation.weight_bytes))
            if operation.backward_scratch:
                fresh += 1
                events.append((fresh, operation.backward_scratch))
                events.append((fresh, 0))
            owners[mine] -= 1
            if owners[mine] == 0:
                events.append((mine, 0))
            events.extend((number, 0) for number in spare)
            for storage in operation.saves:
                saves[id(storage)] -= 1
                if saves[id(storage)] == 0 and numbers.get(id(storage)) != 0:
                    events.append((_number(numbers, storage), 0))
        for identity in inputs:
            last = gradients.get(identity)
            if last is not None:
                events = [(-1 if key == last else key, size) for key, size in events]
        return events

    def _forward(self, live: dict[int, Storage], output: Value) -> Moment:
        current = 0
        for value in self._inputs:
            live[id(value.storage)] = value.storage
            current += value.storage.bytes
        peak = Best()
        dying: dict[int, list[Storage]] = {}
        seen: set[int] = set()
        for value in self._inputs:
            _die(dying, seen, value.storage)
        for operation in self._operations:
            _die(dying, seen, operation.output.storage)
            for storage in operation.saves:
                _die(dying, seen, storage)
        for index, operation in enumerate(self._operations):
            for storage in (operation.output.storage, *operation.saves):
                if id(storage) not in live and storage.last >= index:
                    live[id(storage)] = storage
                    current += storage.bytes
            if current + operation.scratch > peak.bytes:
                peak.take(current, operation.scratch, operation.name, live)
            for storage in dying.get(index, ()):
                if storage.saves == 0 and id(storage) in live:
                    del live[id(storage)]
                    current -= storage.bytes
        return peak.moment()

    def _backward(self, live: dict[int, Storage], output: Value) -> tuple[Moment, int]:
        current = sum(storage.bytes for storage in live.values())
        weights = 0
        peak = Best()
        if output.grad:
            gradient = Storage("gradient of the output", output.bytes, "activation gradients")
            output.gradient = Gradient(gradient)
            live[id(gradient)] = gradient
            current += gradient.bytes
        peak.take(current, 0, "start", live)
        for operation in reversed(self._operations):
            result = operation.output
            if not result.grad or result.gradient is None:
                continue
            spare: list[Storage] = []
            for value in operation.inputs:
                if not value.grad:
                    continue
                if operation.alias and value.bytes == result.bytes:
                    if value.gradient is None:
                        value.gradient = result.gradient
                        result.gradient.owners += 1
                    continue
                fresh = Storage(
                    f"gradient of {value.storage.name}", value.bytes, "activation gradients"
                )
                live[id(fresh)] = fresh
                current += fresh.bytes
                if value.gradient is None:
                    value.gradient = Gradient(fresh)
                else:
                    spare.append(fresh)
            if operation.weight_bytes:
                grad = Storage(f"gradient of {operation.name}", operation.weight_bytes, "gradients")
                live[id(grad)] = grad
                current += grad.bytes
                weights += grad.bytes
            if current + operation.backward_scratch > peak.bytes:
                peak.take(current, operation.backward_scratch, operation.name, live)
            result.gradient.owners -= 1
            if result.gradient.owners == 0:
                spare.append(result.gradient.storage)
            result.gradient = None
            for storage in operation.saves:
                storage.saves -= 1
                if storage.saves == 0:
                    spare.append(storage)
            for storage in spare:
                if live.pop(id(storage), None) is not None:
                    current -= storage.bytes
        return peak.moment(), weights


class Best:
    """The fullest moment so far: its bytes and what lived then."""

    __slots__ = ("bytes", "live", "operation", "scratch")

    def __init__(self) -> None:
        self.bytes = -1
        self.scratch = 0
        self.operation = ""
        self.live: tuple[Storage, ...] = ()

    def take(self, current: int, scratch: int, operation: str, live: dict[int, Storage]) -> None:
        self.bytes = current + scratch
        self.scratch = scratch
        self.operation = operation
        self.live = tuple(live.values())

    def moment(self) -> Moment:
        tensors = [Tensor(s.name, s.bytes, s.kind) for s in self.live]
        if self.scratch:
            tensors.append(Tensor(f"workspace of {self.operation}", self.scratch, "temporaries"))
        tensors.sort(key=lambda tensor: -tensor.bytes)
        return Moment(max(self.bytes, 0), self.operation, tuple(tensors))


def _number(numbers: dict[int, int], storage: Storage) -> int:
    return numbers.setdefault(id(storage), 10 + len(numbers))


def _die(dying: dict[int, list[Storage]], seen: set[int], storage: Storage) -> None:
    if id(storage) not in seen:
        seen.add(id(storage))
        dying.setdefault(storage.last, []).append(storage)
