"""When bytes travel: ahead of use, and never before they are there."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
import torch
from memlint_runtime.device_copies import StreamCopies, SynchronousCopies, _Ticket
from memlint_runtime.offload import (
    offload_activations,
)
from torch import Tensor

# peft asks transformers by the old name of the option, deprecated since 5.23.
pytestmark = pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated")


class CountedCopies(SynchronousCopies):
    """Notes how many bytes were fetched."""

    fetched = 0

    def fetch(self, target: Tensor, blocks: tuple[Tensor, ...]) -> None:
        self.fetched += target.numel()
        super().fetch(target, blocks)


@pytest.mark.parametrize(
    ("prefetch", "prefetch_bytes", "ahead"), [(0, 0, 0), (3, 0, 3), (0, 20_000, 5), (2, 20_000, 5)]
)
def test_as_many_bytes_as_wanted_come_back_ahead(
    prefetch: int, prefetch_bytes: int, ahead: int
) -> None:
    copies = CountedCopies()
    fetched: list[int] = []
    offload = offload_activations(
        min_bytes=1, prefetch=prefetch, prefetch_bytes=prefetch_bytes, device="cpu", copies=copies
    )
    x = torch.randn(32, 32, requires_grad=True)  # 4,096 bytes
    with offload:
        for _ in range(12):
            x = x.exp()  # saves its result
            x.register_hook(lambda _: fetched.append(copies.fetched // 4096))
    x.sum().backward()
    # A hook runs before its own operation unpacks: the second one sees the first one's fetches.
    assert fetched[0] == 0
    assert fetched[1] == 1 + ahead


class RecordedStream:
    """As much of a stream as copies use."""

    def __init__(self, device: Any = None) -> None:
        self.waited: list[Any] = []

    def wait_stream(self, stream: Any) -> None:
        self.waited.append(stream)

    def wait_event(self, event: Any) -> None:
        self.waited.append(event)

    def record_event(self) -> str:
        return "copied"


def test_a_thread_waits_on_the_device_of_the_copy() -> None:
    """Threads begin on the first device; an event's own is another."""
    on: list[str] = []
    current = ["first"]

    @contextlib.contextmanager
    def device(wanted: str) -> Iterator[None]:
        before, current[0] = current[0], wanted
        yield
        current[0] = before

    copies = StreamCopies("cpu")
    copies._module = SimpleNamespace(device=device)
    event = SimpleNamespace(synchronize=lambda: on.append(current[0]))
    copies.finish(_Ticket(event, "second", RecordedStream()))  # type: ignore[arg-type]
    assert (on, current) == (["second"], ["first"])


def test_what_ends_in_another_thread_makes_no_stream_wait() -> None:
    """The garbage collector runs where it likes: the allocator waits for the copies."""

    class Copies(SynchronousCopies):
        left: ClassVar[list[tuple[int, str, str]]] = []

        def send(self, source: Tensor, blocks: tuple[Tensor, ...]) -> Any:
            super().send(source, blocks)
            return "under way"

        def is_done(self, ticket: Any) -> bool:
            return False

        def wait(self, ticket: Any) -> None:
            assert threading.current_thread() is threading.main_thread(), "a finalizer waited"

        def leave(self, memory: Tensor, ticket: Any) -> None:
            self.left.append((memory.numel(), ticket, threading.current_thread().name))

    offload = offload_activations(min_bytes=1, device="cpu", copies=Copies(), budget_bytes=2**13)
    x = torch.randn(32, 32, requires_grad=True)
    with offload:
        graph = [x.exp().exp().exp().exp().sum()]
    kept = offload.resident_bytes
    assert kept > 0
    thread = threading.Thread(target=graph.clear, name="a collector")
    thread.start()
    thread.join()
    assert Copies.left
    assert {left[1:] for left in Copies.left} == {("under way", "a collector")}
    assert (offload.resident_bytes, offload.pool.used_bytes) == (0, 0)


def test_the_computing_stream_waits_whoever_asks_and_for_whoever_asked() -> None:
    computing, other = RecordedStream(), RecordedStream()
    current = [computing]
    streams = SimpleNamespace(
        Stream=RecordedStream,
        current_stream=lambda device: current[0],
        stream=lambda side: contextlib.nullcontext(),
    )
    copies = StreamCopies("cpu")
    copies._module = streams
    ticket = copies.send(torch.ones(4, dtype=torch.uint8), (torch.zeros(4, dtype=torch.uint8),))
    current[0] = other  # as the garbage collector may find it
    copies.wait(ticket)
    assert computing.waited == other.waited == ["copied"]
    current[0] = computing
    copies.wait(ticket)
    copies.let_go(ticket)
    assert computing.waited == ["copied", other]
    assert other.waited == ["copied"]
