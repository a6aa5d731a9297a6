"""Small models and slow copies, to offload with."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch
from memlint_runtime.device_copies import SynchronousCopies
from memlint_runtime.offload import (
    ActivationOffload,
    offload_activations,
)
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForCausalLM


class DelayedCopies:
    """A stream at its laziest: nothing is copied before somebody waits for it.

    Targets hold rubbish until then, and a source that is dropped before its copy ran is an error.
    """

    def __init__(self) -> None:
        self._queue: list[tuple[int, Callable[[], None]]] = []
        self._issued = 0

    def send(self, source: Tensor, blocks: tuple[Tensor, ...]) -> int:
        seen = weakref.ref(source)

        def run() -> None:
            alive = seen()
            assert alive is not None, "device memory was dropped while it was being read"
            SynchronousCopies().send(alive, blocks)

        return self._issue(run)

    def fetch(self, target: Tensor, blocks: tuple[Tensor, ...]) -> int:
        target.fill_(0xFF)
        seen = weakref.ref(target)

        def run() -> None:
            alive = seen()
            assert alive is not None, "device memory was dropped while it was being written"
            SynchronousCopies().fetch(alive, blocks)

        return self._issue(run)

    def _issue(self, run: Callable[[], None]) -> int:
        self._issued += 1
        self._queue.append((self._issued, run))
        return self._issued

    def is_done(self, ticket: int) -> bool:
        return False

    def leave(self, memory: Tensor, ticket: int) -> None:
        self.wait(ticket)

    def finish(self, ticket: int) -> None:
        self.wait(ticket)

    def let_go(self, ticket: int) -> None:
        pass

    def wait(self, ticket: int) -> None:
        while self._queue and self._queue[0][0] <= ticket:
            self._queue.pop(0)[1]()


def offload(model: nn.Module | None = None, **options: Any) -> ActivationOffload:
    options.setdefault("copies", DelayedCopies())
    options.setdefault("min_bytes", 256)
    return offload_activations(model, device="cpu", **options)


def tiny_llama(**options: Any) -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=64,
        intermediate_size=160,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=512,
        use_cache=False,
        **options,
    )
    return LlamaForCausalLM(config)


def batch() -> Tensor:
    return torch.randint(0, 512, (2, 64), generator=torch.Generator().manual_seed(1))


def gradients(model: nn.Module) -> list[Tensor | None]:
    taken = [None if p.grad is None else p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    return taken


def assert_bit_equal(first: list[Tensor | None], second: list[Tensor | None]) -> None:
    assert any(tensor is not None for tensor in first)
    for one, other in zip(first, second, strict=True):
        assert (one is None) == (other is None)
        assert one is None or torch.equal(one, other)
