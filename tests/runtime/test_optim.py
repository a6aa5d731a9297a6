"""The step inside backward: the same parameters, less memory, and every refusal."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from memlint_runtime.fake_memory import MemorySnapshot, track_memory
from memlint_runtime.optim import OptimizerInBackward, SpentGradient
from memlint_runtime.optim.in_backward import _Streams
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

STEPS = 20


def tiny_llama() -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=128,
        tie_word_embeddings=True,
        use_cache=False,
    )
    return LlamaForCausalLM(config)


def batches() -> list[Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randint(0, 128, (2, 16), generator=generator) for _ in range(STEPS)]


def groups(model: nn.Module) -> list[dict[str, Any]]:
    decayed = [p for p in model.parameters() if p.dim() > 1]
    return [
        {"params": decayed, "weight_decay": 0.1},
        {"params": [p for p in model.parameters() if p.dim() == 1], "weight_decay": 0.0},
    ]


def train(model: nn.Module, optimizer: torch.optim.Optimizer) -> list[float]:
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step))
    losses = []
    for ids in batches():
        loss = model(ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def assert_same_parameters(first: nn.Module, second: nn.Module, tolerance: float) -> None:
    for one, other in zip(first.parameters(), second.parameters(), strict=True):
        assert (one - other).abs().max() <= tolerance


OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "AdamW": lambda p: torch.optim.AdamW(p, lr=1e-2),
    "AdamW, fused": lambda p: torch.optim.AdamW(p, lr=1e-2, fused=True),
    "AdamW, foreach": lambda p: torch.optim.AdamW(p, lr=1e-2, foreach=True),
    "SGD with momentum": lambda p: torch.optim.SGD(p, lr=1e-2, momentum=0.9),
    "Adafactor": lambda p: torch.optim.Adafactor(p, lr=1e-2),
    "RMSprop": lambda p: torch.optim.RMSprop(p, lr=1e-3),
    "NAdam": lambda p: torch.optim.NAdam(p, lr=1e-3),
}


@pytest.mark.draws(3)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_parameters_after_twenty_steps_are_the_same(name: str) -> None:
    plain = tiny_llama()
    fused = copy.deepcopy(plain)
    start = copy.deepcopy(plain)
    expected = train(plain, OPTIMIZERS[name](groups(plain)))
    losses = train(fused, OptimizerInBackward(OPTIMIZERS[name](groups(fused))))
    assert losses == pytest.approx(expected, abs=1e-6)
    assert_same_parameters(plain, fused, 1e-6)
    assert (next(plain.parameters()) - next(start.parameters())).abs().max() > 1e-4


def peak(inside: bool, bucket_bytes: int = 0) -> dict[str, MemorySnapshot]:
    with FakeTensorMode():
        model = nn.Sequential(*[nn.Linear(256, 256, bias=False) for _ in range(8)])
        optimizer: torch.optim.Optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
        if inside:
            optimizer = OptimizerInBackward(optimizer, bucket_bytes=bucket_bytes)
        with track_memory(model) as tracker:
            for _ in range(2):
                model(torch.empty(4, 256)).sum().backward()
                optimizer.step()
                optimizer.zero_grad()
    return tracker.phases


@pytest.mark.parametrize("bucket", [1, 3])
def test_a_bucket_of_gradients_is_alive_instead_of_all(bucket: int) -> None:
    weight = 256 * 256 * 4
    outside, inside = peak(inside=False), peak(inside=True, bucket_bytes=bucket * weight)
    assert max(phase.gradients for phase in outside.values()) == 8 * weight
    assert max(phase.gradients for phase in inside.values()) <= bucket * weight
    saved = max(p.total for p in outside.values()) - max(p.total for p in inside.values())
    assert saved >= (7.5 - bucket) * weight


def test_each_parameter_can_be_clipped_by_itself() -> None:
    plain, fused = tiny_llama(), tiny_llama()
    reference = torch.optim.AdamW(plain.parameters(), lr=1e-2)
    optimizer = OptimizerInBackward(
        torch.optim.AdamW(fused.parameters(), lr=1e-2), max_norm_per_parameter=0.01
    )
    for ids in batches()[:5]:
        plain(ids, labels=ids).loss.backward()
        for parameter in plain.parameters():
            assert nn.utils.clip_grad_norm_([parameter], 0.01) > 0
        reference.step()
        reference.zero_grad()
        fused(ids, labels=ids).loss.backward()
        optimizer.step()
    assert_same_parameters(plain, fused, 1e-6)


def test_the_norm_can_be_logged_but_not_clipped() -> None:
    plain, fused = tiny_llama(), tiny_llama()
    ids = batches()[0]
    plain(ids, labels=ids).loss.backward()
    expected = nn.utils.clip_grad_norm_(plain.parameters(), float("inf"))
    optimizer = OptimizerInBackward(torch.optim.SGD(fused.parameters(), lr=0.0))
    fused(ids, labels=ids).loss.backward()
    assert all(isinstance(p.grad, SpentGradient) for p in fused.parameters())
    actual = nn.utils.clip_grad_norm_(fused.parameters(), float("inf"))
    torch.testing.assert_close(actual, expected)
    with pytest.raises(ValueError, match=r"mul_ .* max_norm_per_parameter"):
        nn.utils.clip_grad_norm_(fused.parameters(), 1e-3)
    with pytest.raises(ValueError, match="global norm comes too late"):
        nn.utils.clip_grad_value_(fused.parameters(), 1e-3)
    with pytest.raises(ValueError, match="add"):
        next(fused.parameters()).grad + 1
    optimizer.zero_grad()
    assert all(p.grad is None for p in fused.parameters())


def test_accumulation_is_refused_in_the_second_backward() -> None:
    model, ids = tiny_llama(), batches()[0]
    optimizer = OptimizerInBackward(torch.optim.AdamW(model.parameters()))
    model(ids, labels=ids).loss.backward()
    with pytest.raises(RuntimeError, match="second backward before step"):
        model(ids, labels=ids).loss.backward()
    optimizer.step()
    model.zero_grad()
    model(ids, labels=ids).loss.backward()
    optimizer.zero_grad()  # without a step between: still an accumulation
    with pytest.raises(RuntimeError, match="gradient_accumulation_steps=1"):
        model(ids, labels=ids).loss.backward()


def test_a_gradient_scaler_is_refused() -> None:
    model, ids = tiny_llama(), batches()[0]
    optimizer = OptimizerInBackward(torch.optim.AdamW(model.parameters()))
    scaler = torch.amp.GradScaler("cpu")
    before = [parameter.detach().clone() for parameter in model.parameters()]
    with pytest.raises(ValueError, match="Train in bf16"):
        scaler.scale(model(ids, labels=ids).loss).backward()
    assert all(map(torch.equal, before, model.parameters()))
    with pytest.raises(ValueError, match="Train in bf16"):
        scaler.step(optimizer)


def test_a_gradient_scaler_that_scales_nothing_here_is_no_reason() -> None:
    layer = nn.Linear(4, 4)
    of_a_run_before = torch.amp.GradScaler("cpu")
    of_a_run_before.scale(torch.ones(1))
    idle, off = torch.amp.GradScaler("cpu"), torch.amp.GradScaler("cpu", enabled=False)
    optimizer = OptimizerInBackward(torch.optim.SGD(layer.parameters(), lr=1e-3))
    off.scale(layer(torch.randn(2, 4)).sum()).backward()
    off.step(optimizer)
    assert idle.is_enabled()


def test_closures_counting_optimizers_and_processes_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Counting(torch.optim.SGD):
        def step(self, closure: Any = None) -> None:  # type: ignore[override]
            super().step(closure)
            for group in self.param_groups:
                group["k"] = group.get("k", 0) + 1

    layer = nn.Linear(4, 4)
    with pytest.raises(ValueError, match="LBFGS evaluates the loss several times"):
        OptimizerInBackward(torch.optim.LBFGS(layer.parameters()))
    with pytest.raises(ValueError, match="takes no closure"):
        OptimizerInBackward(torch.optim.SGD(layer.parameters())).step(lambda: None)
    with pytest.raises(ValueError, match="must be above 0, got 0"):
        OptimizerInBackward(torch.optim.SGD(layer.parameters()), max_norm_per_parameter=0)
    layer = nn.Linear(4, 4)
    counting = Counting(layer.parameters(), lr=1e-3)
    counting.param_groups[0]["k"] = 0
    wrapper = OptimizerInBackward(counting)
    with pytest.raises(ValueError, match=r"Counting counts in its parameter groups \(k\)"):
        layer(torch.randn(2, 4)).sum().backward()
    wrapper.remove()
    stepped = OptimizerInBackward(torch.optim.SGD(layer.parameters()))
    with pytest.raises(ValueError, match="another OptimizerInBackward"):
        OptimizerInBackward(torch.optim.SGD(layer.parameters()))
    stepped.remove()
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 8)
    with pytest.raises(ValueError, match="sharded by FSDP2, got 8 processes"):
        OptimizerInBackward(torch.optim.SGD(layer.parameters()))


@pytest.mark.parametrize(
    ("given", "got"),
    [
        (nn.Linear(2, 2), "Linear: pass the object itself"),
        (torch.optim.SGD, "the class SGD itself: make an object of it first"),
        (None, "NoneType"),
    ],
)
def test_what_is_no_optimizer_is_named(given: Any, got: str) -> None:
    with pytest.raises(TypeError, match=f"wants an optimizer .*, got {got}"):
        OptimizerInBackward(given)


def test_parameters_unfrozen_later_are_stepped() -> None:
    def run(wrap: bool) -> list[Tensor]:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 6))
        model[0].requires_grad_(False)
        optimizer: Any = torch.optim.AdamW(model.parameters(), lr=1e-2)
        optimizer = OptimizerInBackward(optimizer) if wrap else optimizer
        for step in range(6):
            if step == 2:
                model[0].requires_grad_(True)
            model(torch.ones(2, 6) * (step + 1)).square().mean().backward()
            optimizer.step()
            if wrap and step > 2:
                assert isinstance(model[0].weight.grad, SpentGradient)
            optimizer.zero_grad()
        return list(model.parameters())

    for one, other in zip(run(True), run(False), strict=True):
        assert torch.equal(one, other)


def test_double_precision() -> None:
    layer = nn.Linear(4, 4, dtype=torch.float64)
    optimizer = OptimizerInBackward(torch.optim.SGD(layer.parameters(), lr=1e-3))
    layer(torch.randn(2, 4, dtype=torch.float64)).sum().backward()
    optimizer.step()


@pytest.mark.parametrize(
    ("bucket_bytes", "expected"), [(0, [[1]] * 40), (96, [[2, 2, 2, 2]] * 5), (None, [[2] * 20])]
)
def test_a_step_looks_at_the_groups_and_parameters_of_its_bucket(
    bucket_bytes: int | None, expected: list[list[int]]
) -> None:
    seen = []

    class Watched(torch.optim.SGD):
        def step(self, closure: Any = None) -> None:  # type: ignore[override]
            seen.append([len(group["params"]) for group in self.param_groups])
            super().step(closure)

    layers = nn.ModuleList(nn.Linear(2, 2) for _ in range(20))
    groups = [{"params": list(layer.parameters()), "lr": 1e-3} for layer in layers]
    optimizer = OptimizerInBackward(Watched(groups), bucket_bytes=bucket_bytes)
    sum(layer(torch.ones(1, 2)).sum() for layer in layers).backward()  # type: ignore[union-attr]
    assert seen == expected
    assert [len(group["params"]) for group in optimizer.param_groups] == [2] * 20
    for parameter in layers.parameters():
        assert isinstance(parameter.grad, SpentGradient)
        assert parameter.grad.untyped_storage().nbytes() == 0


class CountingStream:
    """Stands for a stream of a device: what waits for what is written down."""

    def __init__(self, name: str, log: list[str]) -> None:
        self.name, self.log = name, log

    def wait_stream(self, other: CountingStream) -> None:
        self.log.append(f"{self.name} waits for {other.name}")


def test_a_bucket_of_several_streams_is_stepped_after_all_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log: list[str] = []
    first, second = CountingStream("first", log), CountingStream("second", log)
    present = [first]
    module = type("Module", (), {"current_stream": staticmethod(lambda device: present[0])})
    monkeypatch.setattr(torch, "get_device_module", lambda kind: module)
    streams = _Streams()
    streams.note(torch.device("cuda", 0))
    present[0] = second
    streams.note(torch.device("cuda", 0))
    with streams.together():
        log.append("step")
    assert log == ["second waits for first", "step", "first waits for second"]
    with streams.together():
        pass
    assert len(log) == 3


def test_gradients_that_are_not_cleared_between_steps_begin_anew() -> None:
    plain, fused = nn.Linear(3, 2), nn.Linear(3, 2)
    fused.load_state_dict(plain.state_dict())
    reference = torch.optim.SGD(plain.parameters(), lr=0.1, momentum=0.9)
    optimizer = OptimizerInBackward(torch.optim.SGD(fused.parameters(), lr=0.1, momentum=0.9))
    for step in range(4):
        rows = torch.full((2, 3), float(step))
        for model, of_model in ((plain, reference), (fused, optimizer)):
            model(rows).square().sum().backward()
            of_model.step()
        reference.zero_grad()
    assert_same_parameters(plain, fused, 0.0)


def test_a_failed_backward_leaves_its_gradients_to_the_next_step() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    before = [p.detach().clone() for p in model.parameters()]
    optimizer = OptimizerInBackward(torch.optim.SGD(model.parameters(), lr=0.1))

    def fail(gradient: Tensor) -> None:
        raise RuntimeError("stopped")

    hidden = model[0](torch.ones(2, 3))
    hidden.register_hook(fail)
    with pytest.raises(RuntimeError, match="stopped"):
        model[1](hidden).sum().backward()
    assert all(map(torch.equal, before, model.parameters()))
    optimizer.step()
    changed = [not torch.equal(*pair) for pair in zip(before, model.parameters(), strict=True)]
    assert changed == [False, False, True, True]
    optimizer.zero_grad()
    model(torch.ones(2, 3)).sum().backward()


def test_optimizers_that_look_options_up_by_place() -> None:
    """As bitsandbytes does: options by (group, place), found while all parameters are there."""

    class ByPlace(torch.optim.Optimizer):
        def __init__(self, groups: Any) -> None:
            super().__init__(groups, {"lr": 1.0})
            self.initialized = False
            self.places: dict[int, tuple[int, int]] = {}
            self.seen: dict[int, tuple[int, int]] = {}

        def check_overrides(self) -> None:
            for g, group in enumerate(self.param_groups):
                self.places.update({id(p): (g, i) for i, p in enumerate(group["params"])})

        def to_gpu(self) -> None:
            pass

        def step(self, closure: Any = None) -> None:  # type: ignore[override]
            assert self.initialized
            for g, group in enumerate(self.param_groups):
                for i, p in enumerate(group["params"]):
                    if p.grad is not None:
                        self.seen[id(p)] = (g, i)

    model, ids = tiny_llama(), batches()[0]
    optimizer = ByPlace(groups(model))
    wrapper = OptimizerInBackward(optimizer)
    model(ids, labels=ids).loss.backward()
    assert optimizer.seen == optimizer.places
    assert len(optimizer.seen) == len(list(model.parameters()))
    wrapper.remove()


def test_state_moves_between_it_and_the_plain_optimizer() -> None:
    plain = tiny_llama()
    fused = copy.deepcopy(plain)
    reference = torch.optim.AdamW(groups(plain), lr=1e-2)
    optimizer = OptimizerInBackward(torch.optim.AdamW(groups(fused), lr=1e-2))
    train(plain, reference)
    train(fused, optimizer)
    resumed_fused, resumed_plain = copy.deepcopy(plain), copy.deepcopy(fused)
    swapped = OptimizerInBackward(torch.optim.AdamW(groups(resumed_fused), lr=1e-2))
    swapped.load_state_dict(reference.state_dict())
    unwrapped = torch.optim.AdamW(groups(resumed_plain), lr=1e-2)
    unwrapped.load_state_dict(optimizer.state_dict())
    train(resumed_fused, swapped)
    train(resumed_plain, unwrapped)
    assert_same_parameters(resumed_fused, resumed_plain, 1e-5)


def test_remove_leaves_no_hooks() -> None:
    model, ids = tiny_llama(), batches()[0]
    optimizer = OptimizerInBackward(torch.optim.SGD(model.parameters(), lr=1.0))
    optimizer.remove()
    before = copy.deepcopy(model.state_dict())
    model(ids, labels=ids).loss.backward()
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert all(p.grad is not None for p in model.parameters())


class Rows(torch.utils.data.Dataset):  # type: ignore[type-arg]
    def __len__(self) -> int:
        return STEPS

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        ids = batches()[index][0]
        return {"input_ids": ids, "labels": ids}


def trainer(path: Path, *, inside: bool, **options: Any) -> Trainer:
    model = tiny_llama()
    arguments: dict[str, Any] = {
        "per_device_train_batch_size": 2,
        "learning_rate": 1e-2,
        "max_grad_norm": 0.0,
        "logging_steps": 1,
        "report_to": "none",
        "save_steps": 5,
        "use_cpu": True,
        "disable_tqdm": True,
        "dataloader_pin_memory": False,
    }
    optimizer: torch.optim.Optimizer = torch.optim.AdamW(groups(model), lr=1e-2)
    if inside:
        optimizer = OptimizerInBackward(optimizer)
    args = TrainingArguments(output_dir=str(path), **{**arguments, **options})
    return Trainer(model=model, args=args, train_dataset=Rows(), optimizers=(optimizer, None))


@pytest.mark.filterwarnings("ignore:.*TypedStorage is deprecated")
def test_trainer_trains_logs_the_norm_and_resumes(tmp_path: Path) -> None:
    outside = trainer(tmp_path / "outside", inside=False)
    outside.train()
    inside = trainer(tmp_path / "inside", inside=True)
    inside.train()
    assert_same_parameters(outside.model, inside.model, 1e-6)
    norms = [
        [log["grad_norm"] for log in t.state.log_history if "grad_norm" in log]
        for t in (outside, inside)
    ]
    assert len(norms[0]) == STEPS // 2 * 3
    assert norms[1] == pytest.approx(norms[0], rel=1e-3)
    resumed = trainer(tmp_path / "resumed", inside=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch.load's, on the state of random generators
        resumed.train(resume_from_checkpoint=str(tmp_path / "inside" / "checkpoint-20"))
    assert_same_parameters(inside.model, resumed.model, 1e-6)


def test_trainer_options_that_cannot_work_raise(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="set max_grad_norm=0"):
        trainer(tmp_path, inside=True, max_grad_norm=0.1).train()
    with pytest.raises(RuntimeError, match="gradient_accumulation_steps=1"):
        trainer(tmp_path, inside=True, gradient_accumulation_steps=2).train()


def test_a_graph_that_is_kept_is_said_to_be_of_no_use() -> None:
    layers = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4))
    optimizer = OptimizerInBackward(torch.optim.SGD(layers.parameters(), lr=0.1))
    loss = layers(torch.randn(2, 4)).square().sum()
    with pytest.warns(UserWarning, match="a second backward over the same graph fails"):
        loss.backward(retain_graph=True)
    optimizer.step()
    with pytest.raises(RuntimeError):
        loss.backward()
