"""What offloading must survive or refuse: overwritten tensors, used addresses, exceptions."""

from __future__ import annotations

import copy
import gc
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from memlint_runtime.device_copies import SynchronousCopies
from memlint_runtime.fake_memory import track_memory
from memlint_runtime.host_pool import BLOCK_BYTES, HostPool
from memlint_runtime.offload import (
    _address,
)
from torch import Tensor, nn

from tests.runtime.float64 import in_float64, judge
from tests.runtime.offloading.models import assert_bit_equal, batch, gradients, offload, tiny_llama

# peft asks transformers by the old name of the option, deprecated since 5.23.
pytestmark = pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated")


CPU = torch.device("cpu")


@pytest.mark.parametrize("min_bytes", [0, 10**9])
def test_overwriting_a_saved_tensor_raises_and_names_the_operation(min_bytes: int) -> None:
    x = torch.randn(32, 32, requires_grad=True)
    with offload(min_bytes=min_bytes):
        hidden = x * 1
        result = hidden.sin()
        hidden.add_(1)
    with pytest.raises(
        RuntimeError, match=r"SinBackward0 needs .*\(32, 32\).*overwritten in place"
    ):
        result.sum().backward()


def test_overwriting_a_weight_between_forward_and_backward_raises() -> None:
    layer = nn.Linear(8, 8)
    with offload(min_bytes=0):
        loss = layer(torch.randn(4, 8, requires_grad=True)).sum()
    with torch.no_grad():
        layer.weight.add_(1)
    with pytest.raises(RuntimeError, match="overwritten in place"):
        loss.backward()


def test_an_address_used_again_is_another_tensor() -> None:
    x = torch.randn(256, 256, requires_grad=True)

    def compute() -> Tensor:
        total = torch.zeros(())
        for factor in range(1, 9):
            total = total + (x * factor).sin().sum()  # each product is freed: addresses recur
        return total

    (expected,) = torch.autograd.grad(compute(), x)
    context = offload(copies=SynchronousCopies())
    seen: list[int] = []
    add = context._add
    context._add = lambda tensor: (seen.append(_address(tensor)), add(tensor))[1]  # type: ignore
    for step in range(100):  # until the allocator has used an address again
        with context:
            loss = compute()
        (actual,) = torch.autograd.grad(loss, x)
        assert torch.equal(expected, actual)
        if step > 1 and len(set(seen)) < len(seen):
            break
    assert len(set(seen)) < len(seen)


@pytest.mark.parametrize("min_bytes", [0, 20_000, 10**9])
def test_an_exception_leaves_nothing_behind(min_bytes: int) -> None:
    model, ids = tiny_llama(), batch()
    context = offload(model, min_bytes=min_bytes)

    def failing_step() -> None:
        with context:
            loss = model(ids, labels=ids).loss
            assert (context.pool.used_bytes > 0) == (min_bytes < 10**9)
            raise KeyError(loss.item())

    with track_memory(model) as tracker:
        with pytest.raises(KeyError):
            failing_step()
        gc.collect()
        left = tracker.current.total - tracker.current.parameters
        assert left == ids.nbytes + context.pool.allocated_bytes
    assert (context.pool.used_bytes, context.resident_bytes) == (0, 0)
    assert not model._forward_hooks
    model(ids, labels=ids).loss.backward()
    assert context.pool.used_bytes == 0


def test_fifty_steps_do_not_grow() -> None:
    model, generator = tiny_llama(), torch.Generator().manual_seed(0)
    context = offload(model)
    allocated, largest_use = [], 0
    for _ in range(50):
        length = int(torch.randint(16, 128, (), generator=generator))
        ids = torch.randint(0, 512, (1, length), generator=generator)
        with context:
            loss = model(ids, labels=ids).loss
        largest_use = max(largest_use, context.pool.used_bytes)
        loss.backward()
        del loss
        allocated.append(context.pool.allocated_bytes)
        assert context.pool.used_bytes == 0
    assert allocated[-1] == allocated[24]
    assert allocated[-1] < 2.5 * largest_use
    assert len(context._order) < 200
    assert len(context._known) == 0
    assert all(reference() is None for reference in context._leaving)


def test_large_storages_share_blocks_of_one_size() -> None:
    pool = HostPool()
    for megabytes in (33, 70, 50, 18):
        pool.give(pool.take(megabytes * 2**20, CPU), CPU)
    assert pool.allocated_bytes <= 5 * BLOCK_BYTES
    blocks = pool.take(3 * BLOCK_BYTES + 5, CPU)
    assert [block.numel() for block in blocks] == [BLOCK_BYTES] * 3 + [8]


def test_accumulation_retained_graphs_and_nesting() -> None:
    model, ids = tiny_llama(), batch()

    def losses() -> Iterator[Tensor]:
        for part in ids.split(1):
            yield model(part, labels=part).loss

    for loss in list(losses()):
        loss.backward()
    for loss in losses():
        loss.backward()
    expected = gradients(model)
    context = offload(model)
    with context:
        both = list(losses())
    for loss in both:  # two graphs alive, the older one first
        loss.backward()
    with context, context, offload(model):
        for loss in losses():
            loss.backward(retain_graph=True)
            saved = copy.deepcopy([p.grad for p in model.parameters()])
            loss.backward()  # the same again
            for parameter, before in zip(model.parameters(), saved, strict=True):
                parameter.grad = before
    assert_bit_equal(expected, gradients(model))


class LigerCrossEntropyFunction(torch.autograd.Function):
    """What Liger's does: the gradient overwrites the logits, unseen by the version counter."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, labels: Tensor) -> Tensor:
        loss = nn.functional.cross_entropy(logits, labels)
        probabilities = logits.softmax(-1)
        probabilities[torch.arange(len(labels)), labels] -= 1
        logits.data.copy_(probabilities / len(labels))
        ctx.save_for_backward(logits.detach())
        return loss

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        (gradient,) = ctx.saved_tensors
        return gradient * grads[0], None


LigerCrossEntropyFunction.__module__ = "liger_kernel.ops.cross_entropy"


def test_cross_entropy_that_overwrites_its_logits_is_right_or_refused() -> None:
    torch.manual_seed(0)
    x, head = torch.randn(64, 32, requires_grad=True), nn.Parameter(torch.randn(32, 100))
    labels = torch.randint(0, 100, (64,))

    def plain(x: Tensor, head: Tensor) -> Any:
        loss = nn.functional.cross_entropy(x.tanh() @ head, labels)
        return torch.autograd.grad(loss, [x, head])

    def loss(capped: bool = False) -> Tensor:
        logits = x.tanh() @ head
        if capped:
            logits = logits.tanh()
        result: Tensor = LigerCrossEntropyFunction.apply(logits, labels)
        return result

    context = offload()
    with context:
        result = loss()
    assert context.sent_bytes == 64 * 32 * 4  # tanh's result, not the logits
    found = torch.autograd.grad(result, [x, head])
    judge(found, plain(x, head), in_float64(plain, x, head))
    with pytest.raises(RuntimeError, match="fuse_causal_lm_loss"), offload():
        loss(capped=True)
