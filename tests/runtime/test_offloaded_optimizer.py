"""States and gradients in host memory: bit-equal training, under every order of copies."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from memlint_runtime import OffloadedOptimizer, OptimizerInBackward
from memlint_runtime.device_copies import SynchronousCopies
from memlint_runtime.optim.offloaded import HostGradient
from torch import Tensor, nn

from tests.runtime.offloading.models import DelayedCopies
from tests.runtime.streaming.streams import scheduled, watching

OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "AdamW": lambda groups: torch.optim.AdamW(groups, lr=1e-2),
    "AdamW, fused": lambda groups: torch.optim.AdamW(groups, lr=1e-2, fused=True),
    "AdamW, foreach, amsgrad": lambda groups: torch.optim.AdamW(
        groups, lr=1e-2, foreach=True, amsgrad=True
    ),
    "SGD": lambda groups: torch.optim.SGD(groups, lr=1e-2),
    "SGD with momentum": lambda groups: torch.optim.SGD(groups, lr=1e-2, momentum=0.9),
    # Its default eps is that of the first parameter's type, for all that are stepped with it.
    "Adafactor": lambda groups: torch.optim.Adafactor(groups, lr=1e-2, eps=(1e-9, 1e-3)),
    "Adagrad, which has states from the start": lambda groups: torch.optim.Adagrad(groups, lr=1e-2),
    "RMSprop": lambda groups: torch.optim.RMSprop(groups, lr=1e-3, momentum=0.5),
}


class Model(nn.Module):
    """Two matrices used once, one used twice, one in halves, small vectors, and one in no loss."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.twice = nn.Linear(16, 24), nn.Linear(24, 24)
        self.halves = nn.Linear(24, 24, bias=False, dtype=torch.bfloat16)
        self.turned = nn.Parameter(torch.randn(24, 16).T)
        self.idle = nn.Linear(16, 16)

    def forward(self, rows: Tensor) -> Tensor:
        hidden = self.twice(self.twice(self.first(rows)).tanh()).tanh()
        hidden = self.halves(hidden.bfloat16()).float()
        return (hidden @ self.turned.T).square().mean()


def groups(model: nn.Module) -> list[dict[str, Any]]:
    large = [p for p in model.parameters() if p.dim() > 1]
    small = [p for p in model.parameters() if p.dim() == 1]
    return [{"params": large, "weight_decay": 0.1}, {"params": small, "lr": 3e-3}]


def offloaded(optimizer: torch.optim.Optimizer, **options: Any) -> OffloadedOptimizer:
    options = {"min_bytes": 64, "bucket_bytes": 4000, "copies": DelayedCopies(), **options}
    return OffloadedOptimizer(optimizer, **options)


def train(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    *,
    steps: int = 4,
    accumulate: int = 1,
    clip: float | None = None,
    seed: int = 1,
) -> list[float]:
    """The losses, and the norms where gradients are clipped."""
    generator = torch.Generator().manual_seed(seed)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step))
    seen = []
    for _ in range(steps):
        for _ in range(accumulate):
            loss = model(torch.randn(3, 16, generator=generator))
            loss.backward()
            seen.append(loss.item())
        if clip is not None:
            seen.append(float(nn.utils.clip_grad_norm_(model.parameters(), clip)))
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
    return seen


def assert_equal(one: nn.Module, other: nn.Module) -> None:
    assert all(map(torch.equal, one.parameters(), other.parameters()))


@pytest.mark.draws(5)
@pytest.mark.parametrize("clip", [None, 1e-3])
@pytest.mark.parametrize(("accumulate", "gradients"), [(1, True), (3, True), (2, False)])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_training_is_bit_equal(
    name: str, accumulate: int, gradients: bool, clip: float | None
) -> None:
    plain, model = Model(), Model()
    expected = train(plain, OPTIMIZERS[name](groups(plain)), accumulate=accumulate, clip=clip)
    optimizer = offloaded(OPTIMIZERS[name](groups(model)), gradients=gradients)
    assert train(model, optimizer, accumulate=accumulate, clip=clip) == expected
    assert_equal(model, plain)
    assert not torch.equal(model.first.weight, Model().first.weight)


@pytest.mark.parametrize("bucket_bytes", [0, 4000, 2**30])
@pytest.mark.parametrize("seed", [None, 0, 1, 2])
def test_any_order_of_copies_gives_the_same_bits(seed: int | None, bucket_bytes: int) -> None:
    plain, model = Model(), Model()
    expected = train(plain, OPTIMIZERS["AdamW"](groups(plain)), accumulate=2, clip=1e-3)
    copies, streams = scheduled(seed)
    adamw = OPTIMIZERS["AdamW"](groups(model))
    optimizer = offloaded(adamw, copies=copies, bucket_bytes=bucket_bytes)
    with watching(streams):
        assert train(model, optimizer, accumulate=2, clip=1e-3) == expected
    assert_equal(model, plain)


class CountingCopies(SynchronousCopies):
    """How many bytes are away, and how many were fetched."""

    def __init__(self) -> None:
        self.fetched = self.sent = 0

    def send(self, source: Tensor, blocks: tuple[Tensor, ...]) -> None:
        self.sent += source.numel()
        super().send(source, blocks)

    def fetch(self, target: Tensor, blocks: tuple[Tensor, ...]) -> None:
        self.fetched += target.numel()
        super().fetch(target, blocks)


def test_states_travel_once_a_step_each_way() -> None:
    model, copies = Model(), CountingCopies()
    optimizer = offloaded(OPTIMIZERS["AdamW"](model.parameters()), copies=copies)
    train(model, optimizer, steps=1)
    used = [p for p in model.parameters() if p.numel() * p.element_size() >= 64]
    used = [p for p in used if p is not model.idle.weight and p is not model.idle.bias]
    num_bytes = sum(p.numel() * p.element_size() for p in used)
    assert (copies.fetched, copies.sent) == (num_bytes, 3 * num_bytes)
    train(model, optimizer, steps=1)
    assert (copies.fetched, copies.sent) == (4 * num_bytes, 6 * num_bytes)


def test_what_waits_is_in_host_memory_and_nowhere_else() -> None:
    model = Model()
    adamw = OPTIMIZERS["AdamW"](model.parameters())
    optimizer = offloaded(adamw)
    model(torch.ones(2, 16)).backward()
    assert isinstance(model.first.weight.grad, HostGradient)
    assert model.first.weight.grad.untyped_storage().nbytes() == 0
    optimizer.step()
    held = {id(host) for host in optimizer._hosts.values()}
    for parameter, state in adamw.state.items():
        if parameter.numel() * parameter.element_size() >= 64:
            assert {id(state["exp_avg"]), id(state["exp_avg_sq"])} <= held
    assert optimizer._leaving_bytes <= 4000


@pytest.mark.parametrize("name", ["AdamW", "AdamW, fused", "SGD with momentum", "Adafactor"])
def test_states_move_between_it_and_the_plain_optimizer(name: str) -> None:
    plain, model = Model(), Model()
    reference = OPTIMIZERS[name](groups(plain))
    optimizer = offloaded(OPTIMIZERS[name](groups(model)))
    train(plain, reference)
    train(model, optimizer)
    saved = copy.deepcopy(optimizer.state_dict())
    onto_plain, onto_offloaded = copy.deepcopy(plain), copy.deepcopy(plain)
    resumed = OPTIMIZERS[name](groups(onto_plain))
    resumed.load_state_dict(saved)
    away = offloaded(OPTIMIZERS[name](groups(onto_offloaded)))
    away.load_state_dict(copy.deepcopy(reference.state_dict()))
    large = list(away._hosts.values())
    assert large
    states = away.optimizer.state.values()
    assert all(any(v is host for s in states for v in s.values()) for host in large)
    for candidate, its in ((plain, reference), (onto_plain, resumed), (onto_offloaded, away)):
        train(candidate, its, seed=2)
    assert_equal(onto_plain, plain)
    assert_equal(onto_offloaded, plain)


def test_removed_it_leaves_the_plain_optimizer() -> None:
    plain, model = Model(), Model()
    reference = OPTIMIZERS["AdamW"](groups(plain))
    inner = OPTIMIZERS["AdamW"](groups(model))
    optimizer = offloaded(inner)
    train(plain, reference)
    train(model, optimizer)
    rows = torch.ones(2, 16)
    plain(rows).backward()
    model(rows).backward()
    optimizer.remove()
    for one, other in zip(model.parameters(), plain.parameters(), strict=True):
        assert type(one.grad) is type(other.grad)
        assert one.grad is None or torch.equal(one.grad, other.grad)  # type: ignore[arg-type]
    for step in range(2):
        for candidate, its in ((plain, reference), (model, inner)):
            if step:
                candidate(rows).backward()
            its.step()
            its.zero_grad()
    assert_equal(model, plain)
    assert not model.first.weight._post_accumulate_grad_hooks  # type: ignore[attr-defined]


@pytest.mark.parametrize("set_to_none", [True, False])
def test_gradients_cleared_through_the_model(set_to_none: bool) -> None:
    plain, model = Model(), Model()
    reference = OPTIMIZERS["SGD with momentum"](plain.parameters())
    optimizer = offloaded(OPTIMIZERS["SGD with momentum"](model.parameters()))
    for step in range(4):
        for candidate, its in ((plain, reference), (model, optimizer)):
            candidate(torch.full((2, 16), 1.0 + step)).backward()
            if step != 2:  # once a gradient is kept over a step, and added to
                its.step()
            if step % 2 == 0:
                candidate.zero_grad(set_to_none=set_to_none)
    assert_equal(model, plain)


def test_gradients_cleared_by_the_optimizer_to_zero() -> None:
    plain, model = Model(), Model()
    for candidate, wrap in ((plain, lambda o: o), (model, offloaded)):
        optimizer = wrap(OPTIMIZERS["SGD with momentum"](candidate.parameters()))
        for step in range(4):
            # A sum's gradient is one number, seen as many.
            (candidate(torch.ones(2, 16)) if step % 2 else candidate.turned.sum()).backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=False)
    assert_equal(model, plain)


def test_gradients_changed_by_hand() -> None:
    plain, model = Model(), Model()
    norms: list[list[float]] = []
    for candidate, wrap in ((plain, lambda o: o), (model, offloaded)):
        optimizer = wrap(OPTIMIZERS["AdamW"](candidate.parameters()))
        factor = torch.tensor(-0.5)
        norms.append([])
        for _ in range(3):
            candidate(torch.ones(2, 16)).backward()
            for parameter in candidate.parameters():
                if parameter.grad is not None:
                    parameter.grad *= factor
                    norms[-1].append(parameter.grad.norm().item())
            factor.mul_(2)
            torch.nn.utils.clip_grad_norm_(candidate.parameters(), 1e-3)
            optimizer.step()
            optimizer.zero_grad()
    assert_equal(model, plain)
    assert norms[0] == pytest.approx(norms[1], rel=1e-2)  # to bfloat16
    model(torch.ones(2, 16)).backward()
    with pytest.raises(ValueError, match="mul_ on a gradient that OffloadedOptimizer keeps"):
        model.first.weight.grad *= torch.ones(24, 16)


def test_a_gradient_of_the_users_is_not_taken_for_the_former() -> None:
    plain, model = Model(), Model()
    for candidate, wrap in ((plain, lambda o: o), (model, offloaded)):
        optimizer = wrap(OPTIMIZERS["SGD"](candidate.parameters()))
        candidate(torch.ones(2, 16)).backward()
        optimizer.step()
        candidate.turned.grad = torch.full((24, 16), 0.5).T
        optimizer.step()
        candidate(torch.ones(2, 16)).backward()
        optimizer.step()
    assert_equal(model, plain)


class RecordingCopies(SynchronousCopies):
    """Who waits for which copy: a ticket is the bytes on the device."""

    def __init__(self) -> None:
        self.sent: list[Tensor] = []
        self.fetched: list[Tensor] = []
        self.waited: list[Tensor] = []
        self.finished: list[Tensor] = []

    def send(self, source: Tensor, blocks: tuple[Tensor, ...]) -> Any:
        super().send(source, blocks)
        self.sent.append(source)
        return source

    def fetch(self, target: Tensor, blocks: tuple[Tensor, ...]) -> Any:
        super().fetch(target, blocks)
        self.fetched.append(target)
        return target

    def wait(self, ticket: Tensor) -> None:
        self.waited.append(ticket)

    def finish(self, ticket: Tensor) -> None:
        self.finished.append(ticket)


@pytest.mark.parametrize("bucket_bytes", [0, 2**30])
def test_what_is_read_on_the_host_was_copied(bucket_bytes: int) -> None:
    model, copies = Model(), RecordingCopies()
    adamw = OPTIMIZERS["AdamW"](model.parameters())
    optimizer = offloaded(adamw, copies=copies, bucket_bytes=bucket_bytes)
    model(torch.ones(2, 16)).backward()
    optimizer.step()
    assert not copies.finished
    optimizer.state_dict()
    assert set(map(id, copies.finished)) == set(map(id, copies.sent))
    assert set(map(id, copies.sent + copies.fetched)) == set(map(id, copies.waited))


class Failing(torch.optim.SGD):
    """Fails in one of its steps."""

    fails_in = -1

    def step(self, closure: Any = None) -> Any:
        self.fails_in -= 1
        if self.fails_in == 0:
            raise MemoryError("out of memory")
        return super().step(closure)


@pytest.mark.parametrize("make_copies", [DelayedCopies, RecordingCopies])
def test_a_step_that_raises_can_be_left(make_copies: Callable[[], Any]) -> None:
    plain, model, copies = Model(), Model(), make_copies()
    inner = Failing(model.parameters(), lr=1e-2, momentum=0.9)
    optimizer = offloaded(inner, copies=copies)
    model(torch.ones(2, 16)).backward()
    optimizer.step()
    inner.fails_in = 2
    with pytest.raises(MemoryError):
        optimizer.step()
    held = {id(host) for host in optimizer._hosts.values()}
    assert id(inner.state[model.twice.weight]["momentum_buffer"]) in held
    assert isinstance(model.twice.weight.grad, HostGradient)
    plain.load_state_dict(model.state_dict())
    reference = OPTIMIZERS["SGD with momentum"](plain.parameters())
    reference.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    optimizer.zero_grad()
    for candidate, its in ((plain, reference), (model, optimizer)):
        for _ in range(2):
            candidate(torch.ones(2, 16)).backward()
            its.step()
    assert_equal(model, plain)
    if isinstance(copies, RecordingCopies):
        assert set(map(id, copies.fetched)) <= set(map(id, copies.waited))


def test_a_closure_is_evaluated_once() -> None:
    plain, model = Model(), Model()
    calls: list[int] = []
    results = []
    for candidate, wrap in ((plain, lambda o: o), (model, offloaded)):
        its = wrap(OPTIMIZERS["AdamW"](candidate.parameters()))

        def closure(candidate: Any = candidate) -> Tensor:
            calls.append(1)
            loss: Tensor = candidate(torch.ones(2, 16))
            loss.backward()
            return loss

        results.append(its.step(closure))
    assert len(calls) == 2
    assert torch.equal(*results)
    assert_equal(model, plain)


def test_a_gradient_scaler_takes_states_alone() -> None:
    plain, model = Model(), Model()
    for candidate, wrap in ((plain, lambda o: o), (model, lambda o: offloaded(o, gradients=False))):
        scaler = torch.amp.GradScaler("cpu", init_scale=128.0)
        optimizer = wrap(OPTIMIZERS["AdamW, fused"](candidate.parameters()))
        for _ in range(3):
            scaler.scale(candidate(torch.ones(2, 16))).backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
    assert_equal(model, plain)
    optimizer = offloaded(OPTIMIZERS["AdamW"](Model().parameters()))
    loss = optimizer.param_groups[0]["params"][0].square().sum()
    scaler = torch.amp.GradScaler("cpu")
    scaler.scale(loss).backward()
    with pytest.raises(ValueError, match=r"gradient scaler.* gradients=False"):
        scaler.step(optimizer)


def test_groups_that_come_later_and_parameters_that_are_unfrozen() -> None:
    plain, model = Model(), Model()
    for candidate, wrap in ((plain, lambda o: o), (model, offloaded)):
        candidate.twice.requires_grad_(False)
        optimizer = wrap(torch.optim.AdamW([*candidate.first.parameters()], lr=1e-2))
        for step in range(4):
            if step == 1:
                optimizer.add_param_group({"params": [*candidate.twice.parameters()]})
            if step == 2:
                candidate.twice.requires_grad_(True)
            candidate(torch.ones(2, 16)).backward()
            optimizer.step()
            candidate.zero_grad()
    assert_equal(model, plain)


def test_refusals_name_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    layer = nn.Linear(16, 16)
    with pytest.raises(ValueError, match="LBFGS evaluates the loss several times"):
        OffloadedOptimizer(torch.optim.LBFGS(layer.parameters()))
    with pytest.raises(TypeError, match="wants an optimizer"):
        OffloadedOptimizer(layer)  # type: ignore[arg-type]
    first = OffloadedOptimizer(torch.optim.SGD(layer.parameters()))
    with pytest.raises(ValueError, match="another OffloadedOptimizer"):
        OffloadedOptimizer(torch.optim.SGD(layer.parameters()))
    for wrap in (OffloadedOptimizer, OptimizerInBackward):
        with pytest.raises(ValueError, match="not wrapped, got it in OffloadedOptimizer"):
            wrap(first)
    layer(torch.ones(1, 16)).sum().backward()
    first.min_bytes = 0
    with pytest.raises(ValueError, match="add on a gradient that OffloadedOptimizer keeps"):
        _ = first._take_gradient(layer.bias) or layer.bias.grad + 1
    first.remove()
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 2)
    with pytest.raises(ValueError, match="on one process, got 2"):
        OffloadedOptimizer(torch.optim.SGD(layer.parameters()))
    OffloadedOptimizer(torch.optim.SGD(layer.parameters()), gradients=False)
