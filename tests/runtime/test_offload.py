"""Offloaded activations: gradients bit-equal, bytes that leave, hazards that raise."""

from __future__ import annotations

import contextlib
import copy
import gc
import weakref
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from memlint_runtime import fuse_causal_lm_loss
from memlint_runtime.device_copies import StreamCopies, SynchronousCopies
from memlint_runtime.fake_memory import track_memory
from memlint_runtime.host_pool import BLOCK_BYTES, HostPool
from memlint_runtime.offload import (
    ActivationOffload,
    _address,
    keep_on_device,
    offload_activations,
)
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.checkpoint import checkpoint
from transformers import LlamaConfig, LlamaForCausalLM

# peft asks transformers by the old name of the option, deprecated since 5.23.
pytestmark = pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated")

CPU = torch.device("cpu")


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


def layers_checkpointed(model: LlamaForCausalLM) -> LlamaForCausalLM:
    for layer in model.model.layers:
        run = layer.forward
        layer.forward = lambda *a, _run=run, **k: checkpoint(_run, *a, use_reentrant=False, **k)
    return model


def with_fused_loss(model: LlamaForCausalLM) -> LlamaForCausalLM:
    fuse_causal_lm_loss(model)
    return model


def with_lora(model: LlamaForCausalLM) -> nn.Module:
    peft = pytest.importorskip("peft")
    config = peft.LoraConfig(r=4, target_modules=["q_proj", "down_proj"], init_lora_weights=False)
    wrapped: nn.Module = peft.get_peft_model(model, config)
    return wrapped


VARIANTS: dict[str, Callable[[], nn.Module]] = {
    "plain": tiny_llama,
    "eager attention with dropout": lambda: tiny_llama(
        attn_implementation="eager", attention_dropout=0.1
    ),
    "tied head": lambda: tiny_llama(tie_word_embeddings=True),
    "checkpointed": lambda: layers_checkpointed(tiny_llama()),
    "fused loss": lambda: with_fused_loss(tiny_llama()),
    "fused loss, checkpointed": lambda: with_fused_loss(layers_checkpointed(tiny_llama())),
    "adapter": lambda: with_lora(tiny_llama()),
    "checkpointed adapter": lambda: with_lora(layers_checkpointed(tiny_llama())),
}


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"budget_bytes": 50_000},
        {"prefetch_bytes": 0},
        {"prefetch": 0, "prefetch_bytes": 0, "in_flight": 0},
    ],
)
@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("variant", VARIANTS)
def test_gradients_of_a_model_are_bit_equal(
    variant: str, autocast: bool, options: dict[str, int]
) -> None:
    model, ids = VARIANTS[variant](), batch()

    def loss() -> Tensor:
        torch.manual_seed(2)
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            result: Tensor = model(input_ids=ids, labels=ids).loss
        return result

    plain = loss()
    plain.backward()
    expected = gradients(model)
    context = offload(model, **options)
    with context:
        sent = loss()
    assert context.sent_bytes > 0
    assert torch.equal(plain, sent)
    sent.backward()
    assert_bit_equal(expected, gradients(model))
    del sent
    assert context.pool.used_bytes == 0
    assert context.resident_bytes == 0


def inplace_activation(x: Tensor, w: Tensor) -> Tensor:
    return (x @ w).relu_().mul(2).sigmoid_() @ w


def views(x: Tensor, w: Tensor) -> Tensor:
    first, second = (x @ w).chunk(2, dim=-1)
    return first.tanh() * second.transpose(0, 1).exp().transpose(0, 1) * first


def expanded(x: Tensor, w: Tensor) -> Tensor:
    row = (x @ w).mean(0, keepdim=True).expand(50, -1)
    return row * row.sin() * x[:1].expand(50, -1).exp()


def strided(x: Tensor, w: Tensor) -> Tensor:
    y = (x @ w).t()[::2, 1::3]
    return y.exp() * y.flip(0).as_strided((4, 4), (8, 1), 3).exp().mean()


def same_storage_other_types(x: Tensor, w: Tensor) -> Tensor:
    y = torch.view_as_complex((x @ w).reshape(x.shape[0], -1, 2).contiguous())
    return (y * y.conj()).real * y.abs()


def slice_of_large(x: Tensor, w: Tensor) -> Tensor:
    y = x @ w
    return y[-1:].exp() * y[0].sin()


@pytest.mark.parametrize(
    "compute",
    [inplace_activation, views, expanded, strided, same_storage_other_types, slice_of_large],
)
def test_gradients_of_awkward_tensors_are_bit_equal(
    compute: Callable[[Tensor, Tensor], Tensor],
) -> None:
    torch.manual_seed(0)
    x, w = torch.randn(48, 48, requires_grad=True), torch.randn(48, 48, requires_grad=True)
    expected = torch.autograd.grad(compute(x, w).square().sum(), [x, w])
    context = offload(min_bytes=0)
    with context:
        result = compute(x, w).square().sum()
    actual = torch.autograd.grad(result, [x, w])
    assert context.sent_bytes > 0
    for one, other in zip(expected, actual, strict=True):
        assert torch.equal(one, other)


OPERATIONS: list[Callable[[Tensor], Tensor]] = [
    lambda x: x.sin(),
    lambda x: x * x,
    lambda x: x.clone().relu_(),
    lambda x: torch.cat(x.chunk(3, 1)[::-1], 1) * x,
    lambda x: x[:1].expand_as(x) * x.t().t(),
    lambda x: checkpoint(lambda y: y.tanh().mul(y).cos(), x, use_reentrant=False),
    lambda x: torch.nn.functional.dropout(x, 0.2) + x[::2].exp().mean(),
    lambda x: nn.functional.layer_norm(x, (x.shape[1],)),
    lambda x: x.softmax(-1).detach() * x,
]


@given(
    picks=st.lists(st.integers(0, len(OPERATIONS) - 1), min_size=1, max_size=12),
    rows=st.integers(1, 40),
    min_bytes=st.sampled_from([0, 300, 3000]),
    budget=st.sampled_from([None, 0, 2000, 20_000, 10**9]),
    prefetch=st.integers(0, 4),
    in_flight=st.integers(0, 4),
)
@settings(max_examples=80, deadline=None)
def test_gradients_of_random_graphs_are_bit_equal(
    picks: list[int], rows: int, min_bytes: int, budget: int | None, prefetch: int, in_flight: int
) -> None:
    def compute(x: Tensor) -> Tensor:
        torch.manual_seed(7)
        for pick in picks:
            x = OPERATIONS[pick](x)
        return x.square().sum()

    x = torch.randn(rows, 24, generator=torch.Generator().manual_seed(rows), requires_grad=True)
    (expected,) = torch.autograd.grad(compute(x), x)
    context = offload(
        min_bytes=min_bytes,
        budget_bytes=budget,
        prefetch=prefetch,
        prefetch_bytes=0,
        in_flight=in_flight,
    )
    with context:
        loss = compute(x)
    assert budget is None or context.resident_bytes <= budget
    (actual,) = torch.autograd.grad(loss, x)
    assert torch.equal(expected.view(torch.int32), actual.view(torch.int32))  # NaN included
    del loss
    assert (context.pool.used_bytes, context.resident_bytes) == (0, 0)


def test_a_storage_saved_often_moves_once_and_leaves_the_device() -> None:
    """By the tracker: what is alive after forward is what was not offloaded."""
    with FakeTensorMode():
        x = torch.empty(1000, 10, requires_grad=True)
        context = offload(host="meta", copies=SynchronousCopies())
        with track_memory() as tracker, context:
            hidden = x * 2
            loss = (hidden.sin() * hidden.t().cos().t()).sum()
            del hidden
            # `hidden` is saved by sin and, through a view, by cos; both results by the product.
            assert context.sent_bytes == 3 * 40_000
            assert tracker.current.total == 40_000 + 4  # x, which only the test holds, and the loss
        loss.backward()


def test_weights_their_views_and_buffers_stay() -> None:
    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(64, 64))
            self.register_buffer("scale", torch.randn(64, 64))

        def forward(self, x: Tensor) -> Tensor:
            return (x @ self.weight.t()[:, :32]) * self.scale[:, :32] + self.weight.view(-1)[0]

    layer = Layer()
    x = torch.randn(64, 64, requires_grad=True)
    context = offload(layer, min_bytes=0)
    with context:
        layer(x)
    assert context.sent_bytes == 64 * 64 * 4  # x


def test_weights_that_autocast_casts_stay() -> None:
    layer = nn.Linear(64, 64)
    x = torch.randn(32, 64, requires_grad=True)
    context = offload(layer, min_bytes=0)
    with context, torch.autocast("cpu", torch.bfloat16):
        y = layer(x).float()
    assert context.sent_bytes == 32 * 64 * 2  # x in bfloat16
    y.sum().backward()


def test_losses_are_known_by_whole_words_of_their_names() -> None:
    class GlossyGelu(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.save_for_backward(x)
            return x.clone()

        @staticmethod
        def backward(ctx: Any, *grads: Tensor) -> Tensor:
            return grads[0] * ctx.saved_tensors[0]

    def sent(module: str, name: str) -> int:
        function = type(name, (GlossyGelu,), {"__module__": module, "__qualname__": f"f.{name}"})
        context = offload()
        with context:
            function.apply(torch.randn(64, 64, requires_grad=True) * 1)
        return context.sent_bytes

    assert sent("mine.loss", "GlossyGelu")
    assert sent("mine", "LosslessPath")
    assert not sent("mine", "DPOLoss")
    assert not sent("mine", "_ChunkedLogProbFunction")
    assert not sent("mine", "fused_loss")
    assert not sent("liger_kernel.chunked_loss.dpo", "LigerFusedLinearDPOFunction")


def test_views_of_weights_stay_without_the_model() -> None:
    weight, x = nn.Parameter(torch.randn(64, 64)), torch.randn(64, 64, requires_grad=True)
    context = offload()
    with context:
        (x @ weight.t()[:, :32]) * weight[:, :32]
    assert context.sent_bytes == 64 * 64 * 4 + 64 * 32 * 4  # x and the product


def test_a_storage_changed_between_two_saves_moves_again() -> None:
    """As autograd does, the second user gets the second contents; the first was never asked."""
    x = torch.randn(32, 32, requires_grad=True)
    with offload(copies=SynchronousCopies()):
        hidden = x * 1
        unused = hidden.sin()
        hidden.add_(1)
        result = hidden.cos()
    (actual,) = torch.autograd.grad(result.sum(), x)
    assert torch.equal(actual, -(x + 1).sin())
    del unused


def test_small_tensors_and_other_devices_stay() -> None:
    x = torch.randn(10, requires_grad=True)
    below = offload(min_bytes=41)
    with below:
        x.exp().sin()
    elsewhere = offload_activations(min_bytes=0)  # of an accelerator, which is not there
    with elsewhere:
        loss = x.exp().sin().sum()
    loss.backward()
    assert below.sent_bytes == elsewhere.sent_bytes == 0


def test_a_slice_does_not_drag_a_long_lived_buffer_along() -> None:
    data = torch.randn(1000, 64)
    weight = torch.randn(64, 64, requires_grad=True)
    context = offload()
    with context:
        loss = (data[10:20] @ weight).sum()
    assert context.sent_bytes == 0
    loss.backward()
    assert weight.grad is not None


def test_outputs_of_the_model_stay() -> None:
    model, ids = tiny_llama(), batch()
    context = offload(model, copies=SynchronousCopies())
    with context:
        outputs = model(ids, output_hidden_states=True)
        before = context.sent_bytes
        loss = outputs.logits.float().square().mean() + outputs.hidden_states[1].exp().mean()
        assert context.sent_bytes - before <= 2 * 64 * 64 * 4  # exp's own result
    loss.backward()
    expected = gradients(model)
    outputs = model(ids, output_hidden_states=True)
    (outputs.logits.float().square().mean() + outputs.hidden_states[1].exp().mean()).backward()
    assert_bit_equal(expected, gradients(model))


def test_budget_sends_the_largest_first_and_of_equals_the_oldest() -> None:
    x = torch.randn(100, requires_grad=True)
    large = torch.randn(1000, requires_grad=True)
    context = offload(budget_bytes=4400 + 800, copies=SynchronousCopies())
    with context:
        first, second = x * 1, x * 2
        saved = [first.sin(), large.sin(), second.sin()]
        assert (context.sent_bytes, context.resident_bytes) == (0, 4800)
        saved.append((large * 3).sin())
        assert context.sent_bytes == 4000  # `large`, the oldest of the two largest
        known = {s.index: bool(s.blocks) for s in context._known.values()}
        assert known == {0: False, 1: True, 2: False, 3: False}
    torch.stack([part.sum() for part in saved]).sum().backward()


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
    seen = []
    add = context._add
    context._add = lambda tensor: (seen.append(_address(tensor)), add(tensor))[1]  # type: ignore
    for _ in range(3):
        with context:
            loss = compute()
        (actual,) = torch.autograd.grad(loss, x)
        assert torch.equal(expected, actual)
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


def test_a_part_can_be_kept_on_the_device() -> None:
    x = torch.randn(32, 32, requires_grad=True)
    context = offload()
    with context:
        hidden = x * 2
        with keep_on_device():
            loss = hidden.sin().sum()
    assert context.sent_bytes == 0
    hidden.detach().add_(1)
    with pytest.raises(RuntimeError, match="overwritten in place"):
        loss.backward()


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

    def loss(overwriting: bool, capped: bool = False) -> Tensor:
        logits = x.tanh() @ head
        if capped:
            logits = logits.tanh()
        if overwriting:
            result: Tensor = LigerCrossEntropyFunction.apply(logits, labels)
            return result
        return nn.functional.cross_entropy(logits, labels)

    expected = torch.autograd.grad(loss(overwriting=False), [x, head])
    context = offload()
    with context:
        result = loss(overwriting=True)
    assert context.sent_bytes == 64 * 32 * 4  # tanh's result, not the logits
    for one, other in zip(expected, torch.autograd.grad(result, [x, head]), strict=True):
        torch.testing.assert_close(one, other)
    with pytest.raises(RuntimeError, match="fuse_causal_lm_loss"), offload():
        loss(overwriting=True, capped=True)


def test_negative_limits_are_refused() -> None:
    with pytest.raises(ValueError, match="prefetch must be 0 or more, got -1"):
        offload_activations(prefetch=-1)


def test_peak_under_fakes_falls() -> None:
    def peak(budget: int | None, *, offloaded: bool) -> int:
        with FakeTensorMode():
            model, ids = tiny_llama(), torch.zeros(2, 64, dtype=torch.long)
            context = offload(
                model, host="meta", copies=SynchronousCopies(), budget_bytes=budget, min_bytes=0
            )
            with track_memory(model) as tracker:
                if offloaded:
                    with context:
                        loss = model(ids, labels=ids).loss
                else:
                    loss = model(ids, labels=ids).loss
                loss.backward()
        return tracker.peak.activations

    plain = peak(None, offloaded=False)
    assert peak(10**9, offloaded=True) == plain
    assert peak(None, offloaded=True) < 0.4 * plain
    assert peak(1_000_000, offloaded=True) <= plain - 1_000_000


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

    def wait_stream(self, stream: Any) -> None: ...

    def wait_event(self, event: Any) -> None:
        self.waited.append(event)

    def record_event(self) -> str:
        return "copied"


def test_the_computing_stream_waits_whoever_asks() -> None:
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
    assert computing.waited == ["copied", "copied"]
