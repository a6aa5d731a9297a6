"""Which bytes live at once when the operations of a recording run forward, and then backward.

Forward, a tensor dies after its last use unless autograd keeps it. Backward, the gradient of each
input is allocated before the operation's saved tensors are freed. The rules are those of torch's
autograd engine: saved tensors die when their node has run, a second gradient of the same tensor is
added into the first in place, and views share storage and gradient.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate

from memlint.source.record import NamedTuple, Record, slotted

ROUND = 512  # the allocator hands out multiples of 512 bytes


class Storage:
    """Bytes that live and die as one; views of a tensor share it."""

    __slots__ = ("bytes", "kind", "last", "name")

    def __init__(self, name: str, size: int, kind: str) -> None:
        self.name = name
        self.bytes = -(-size // ROUND) * ROUND
        self.kind = kind
        self.last = -1


@slotted
class Value:
    """A tensor: ``elements`` numbers of ``width`` bytes; ``grad`` if backward reaches it."""

    storage: Storage
    elements: int
    width: int
    grad: bool

    @property
    def bytes(self) -> int:
        return self.elements * self.width


@slotted
class Operation:
    """One call: what it reads, makes, keeps for backward, and needs beside these meanwhile."""

    name: str
    inputs: tuple[Value, ...]
    output: Value
    saves: tuple[Storage, ...]
    scratch: int
    backward_scratch: int
    alias: bool
    weight_bytes: int


class Tensor(Record):
    """A tensor that lives at a moment: its name, bytes, kind, and how the bytes come about."""

    name: str
    bytes: int
    kind: str
    arithmetic: str = ""


class Moment(Record):
    """The fullest moment of a replay: the bytes and what they are, largest first."""

    bytes: int
    operation: str
    tensors: tuple[Tensor, ...] = ()


class Trace(Record):
    """Allocations (number, bytes) and releases (number, 0) in order.

    plain: a forward pass that keeps nothing but its input. saving: one that keeps what backward
    needs. backward: the backward pass; weight gradients have numbers below -10 and stay.
    """

    plain: tuple[tuple[int, int], ...]
    saving: tuple[tuple[int, int], ...]
    backward: tuple[tuple[int, int], ...]


def most_at_once(events: Sequence[tuple[int, int]]) -> int:
    """The most bytes that are there at once in a trace: numbers with sizes, then with 0."""
    sizes = {number: size for number, size in events if size}
    return max(accumulate(size or -sizes[number] for number, size in events))


class Gradient:
    """The gradient of a tensor, and of those that share it: ``owners`` have not used it yet."""

    __slots__ = ("bytes", "owners", "storage")

    def __init__(self, name: str, size: int) -> None:
        self.bytes = size
        self.storage = Storage(name, size, "activation gradients")
        self.owners = 1


class ForwardStep(NamedTuple):
    """One operation forward: what it allocates first, and whose last use it is."""

    operation: Operation
    made: list[Storage]
    last_used: list[Storage]


class BackwardStep(NamedTuple):
    """One operation backward: the gradients that it allocates, and what dies when it has run."""

    operation: Operation
    made: list[Gradient]
    used: list[Gradient]
    freed: list[Storage]


class Lifetimes:
    """The lives of all tensors of a recording.

    inputs: tensors that exist before. held: storages that something holds until backward is over.
    """

    def __init__(
        self, operations: Sequence[Operation], inputs: Sequence[Value], held: Sequence[Storage]
    ) -> None:
        self._operations = operations
        self._inputs = inputs
        self._held = held
        self._kept = {id(storage) for each in operations for storage in each.saves}
        self._kept.update(map(id, held))

    def is_kept(self, storage: Storage) -> bool:
        """True if it lives on after the forward pass."""
        return id(storage) in self._kept

    def forward(self, live: dict[int, Storage]) -> Moment:
        """The fullest moment of the forward pass; ``live`` gets what is left after it."""
        current = 0
        for value in self._inputs:
            live[id(value.storage)] = value.storage
            current += value.storage.bytes
        peak = Best()
        for operation, made, last_used in self._forward_steps(set(live)):
            for storage in made:
                live[id(storage)] = storage
                current += storage.bytes
            if current + operation.scratch > peak.bytes:
                peak.take(current, operation.scratch, operation.name, live)
            for storage in last_used:
                if not self.is_kept(storage) and live.pop(id(storage), None) is not None:
                    current -= storage.bytes
        return peak.moment()

    def backward(self, live: dict[int, Storage], output: Value) -> tuple[Moment, int]:
        """The fullest moment of backward from what ``live`` has, and the gradients' bytes."""
        current = sum(storage.bytes for storage in live.values())
        weights = 0
        gradients = _first_gradient(output)
        for gradient in gradients.values():
            live[id(gradient.storage)] = gradient.storage
            current += gradient.storage.bytes
        peak = Best()
        peak.take(current, 0, "start", live)
        for operation, made, used, freed in self._backward_steps(gradients, self._held):
            new = [gradient.storage for gradient in made]
            if operation.weight_bytes:
                name = f"gradient of {operation.name}"
                new.append(Storage(name, operation.weight_bytes, "gradients"))
                weights += new[-1].bytes
            for storage in new:
                live[id(storage)] = storage
                current += storage.bytes
            if current + operation.backward_scratch > peak.bytes:
                peak.take(current, operation.backward_scratch, operation.name, live)
            for storage in (*(gradient.storage for gradient in used), *freed):
                if live.pop(id(storage), None) is not None:
                    current -= storage.bytes
        return peak.moment(), weights

    def trace(self, output: Value) -> Trace:
        """The order of allocations and releases: forward alone, with saving, and backward.

        Numbers name storages: 0 the input, 1 the output, -1 and -2 the gradients of the input and
        of the output.
        """
        numbers: dict[int, int] = {}
        for index, value in enumerate(self._inputs):
            numbers[id(value.storage)] = 0 if index == 0 else 2 + index
        numbers[id(output.storage)] = 1
        plain = self._forward_events(output, numbers, saving=False)
        saving = self._forward_events(output, numbers, saving=True)
        return Trace(tuple(plain), tuple(saving), tuple(self._backward_events(output, numbers)))

    def _forward_events(
        self, output: Value, numbers: dict[int, int], *, saving: bool
    ) -> Iterator[tuple[int, int]]:
        inputs = {id(value.storage) for value in self._inputs}
        stays = inputs | {id(output.storage)} | (self._kept if saving else set())
        steps = self._forward_steps(inputs - {id(output.storage)})
        for index, (operation, made, last_used) in enumerate(steps):
            for storage in made:
                yield _number(numbers, storage), storage.bytes
            if operation.scratch:
                yield 1000000 + index, operation.scratch
                yield 1000000 + index, 0
            for storage in last_used:
                if id(storage) not in stays:
                    yield _number(numbers, storage), 0

    def _backward_events(self, output: Value, numbers: dict[int, int]) -> list[tuple[int, int]]:
        events: list[tuple[int, int]] = []
        gradients = _first_gradient(output)
        names = {id(gradient): -2 for gradient in gradients.values()}
        fresh = 2000000
        for operation, made, used, freed in self._backward_steps(gradients, ()):
            for gradient in made:
                fresh += 1
                names[id(gradient)] = fresh
                events.append((fresh, gradient.bytes))
            # A weight's gradient is cast from what is needed meanwhile.
            weight = [(-10 - fresh, operation.weight_bytes)] if operation.weight_bytes else []
            if operation.backward_scratch:
                fresh += 1
                weight = [(fresh, operation.backward_scratch), *weight, (fresh, 0)]
            events += weight
            events += [(names[id(gradient)], 0) for gradient in used]
            events += [
                (_number(numbers, storage), 0) for storage in freed if numbers.get(id(storage)) != 0
            ]
        last = gradients.get(id(self._inputs[0])) if self._inputs else None
        if last is None:
            return events
        return [(-1 if name == names[id(last)] else name, size) for name, size in events]

    def _forward_steps(self, existing: set[int]) -> Iterator[ForwardStep]:
        """The operations in order. existing: storages (by identity) that need not be allocated."""
        made = set(existing)
        last_used = self._by_last_use()
        for index, operation in enumerate(self._operations):
            new = []
            for storage in (operation.output.storage, *operation.saves):
                if id(storage) not in made and storage.last >= index:
                    made.add(id(storage))
                    new.append(storage)
            yield ForwardStep(operation, new, last_used.get(index, []))

    def _by_last_use(self) -> dict[int, list[Storage]]:
        """All storages by the number of the operation that uses them last."""
        found = {id(value.storage): value.storage for value in self._inputs}
        for operation in self._operations:
            for storage in (operation.output.storage, *operation.saves):
                found.setdefault(id(storage), storage)
        last_used: dict[int, list[Storage]] = {}
        for storage in found.values():
            last_used.setdefault(storage.last, []).append(storage)
        return last_used

    def _backward_steps(
        self, gradients: dict[int, Gradient], held: Sequence[Storage]
    ) -> Iterator[BackwardStep]:
        """The operations in the order of backward, those alone that it reaches.

        gradients: of the tensors that have one, by identity; what is left in it are the inputs'.
        held: storages that stay.
        """
        saves = Counter(id(storage) for each in self._operations for storage in each.saves)
        saves.update(map(id, held))
        for operation in reversed(self._operations):
            mine = gradients.pop(id(operation.output), None)
            if mine is None:
                continue
            made, spare = _flow_back(operation, mine, gradients)
            mine.owners -= 1
            used = [*([mine] if mine.owners == 0 else ()), *spare]
            freed = []
            for storage in operation.saves:
                saves[id(storage)] -= 1
                if saves[id(storage)] == 0:
                    freed.append(storage)
            yield BackwardStep(operation, made, used, freed)


def _first_gradient(output: Value) -> dict[int, Gradient]:
    return {id(output): Gradient("gradient of the output", output.bytes)} if output.grad else {}


def _flow_back(
    operation: Operation, mine: Gradient, gradients: dict[int, Gradient]
) -> tuple[list[Gradient], list[Gradient]]:
    """Give the operation's inputs their gradients, where ``mine`` is that of its output.

    Returns those that are allocated, and those of them that are added into one there is.
    """
    made: list[Gradient] = []
    spare: list[Gradient] = []
    for value in operation.inputs:
        if not value.grad:
            continue
        if operation.alias and value.bytes == operation.output.bytes:
            if id(value) not in gradients:
                gradients[id(value)] = mine
                mine.owners += 1
            continue
        if operation.name == "joined" and id(value) in gradients:
            continue  # its gradient went into that of the whole with the other half's
        fresh = Gradient(f"gradient of {value.storage.name}", value.bytes)
        made.append(fresh)
        if id(value) in gradients:
            spare.append(fresh)
        else:
            gradients[id(value)] = fresh
    return made, spare


class Best:
    """The fullest moment so far: its bytes and what lived then."""

    __slots__ = ("bytes", "live", "operation", "scratch")

    def __init__(self) -> None:
        self.take(-1, 0, "", {})

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


def format_size(size: int) -> str:
    """A size as torch shows it."""
    for power, unit in ((30, "GiB"), (20, "MiB")):
        if size >= 2**power:
            return f"{size / 2**power:.2f} {unit}"
    return f"{size / 2**10:.2f} KiB"
