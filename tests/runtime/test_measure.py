"""The report of a measured step: numbers, table, picture, callback."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest
import torch
from memlint_runtime.fake_memory import MemoryEvent, MemorySnapshot
from memlint_runtime.measure import (
    MeasureMemoryCallback,
    MemoryReport,
    PhaseMemory,
    measure_memory,
)
from memlint_runtime.measure.measuring import _PhaseTracker
from memlint_runtime.measure.report import MOST_POINTS, thinned
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

WEIGHT = 64 * 64 * 4


def step(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    model(torch.empty(8, 64)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()


def two_layers() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 64, bias=False), nn.Linear(64, 64, bias=False))


@pytest.mark.parametrize("fake", [False, True])
def test_phases_and_kinds(fake: bool) -> None:
    with measure_memory(fake=fake) as measured:
        model = two_layers()
        optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
        with measured.phase("first step"):
            step(model, optimizer)
        step(model, optimizer)
    by_name = {phase.name: phase for phase in measured.report.phases}
    assert list(by_name) == ["forward", "first step", "backward", "optimizer"]
    assert by_name["backward"].counted.gradients >= WEIGHT
    assert by_name["optimizer"].counted.gradients == 2 * WEIGHT
    assert by_name["optimizer"].counted.optimizer_states == 4 * WEIGHT + 2 * 4
    assert all(phase.counted.parameters == 2 * WEIGHT for phase in by_name.values())
    assert measured.report.peak.counted.total == max(p.counted.total for p in by_name.values())


def converted(dtype: torch.dtype) -> nn.Module:
    return two_layers().to(dtype)


def converted_after_a_step(dtype: torch.dtype) -> nn.Module:
    model = two_layers()
    model(torch.empty(8, 64)).sum().backward()
    model.half()
    return model.to(dtype)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("make", [converted, converted_after_a_step])
def test_models_change_their_type_under_fakes(make: Any, dtype: torch.dtype) -> None:
    own = torch.utils.swap_tensors
    with measure_memory(fake=True) as measured:
        model = make(dtype)
        optimizer = torch.optim.SGD(model.parameters(), foreach=False)
        optimizer.zero_grad()
        with measured.phase("step"):
            model(torch.empty(8, 64, dtype=dtype)).sum().backward()
            optimizer.step()
    counted = {phase.name: phase.counted for phase in measured.report.phases}["step"]
    # At the peak one gradient is complete, and the other one is not yet its parameter's.
    weight = 64 * 64 * dtype.itemsize
    assert (counted.parameters, counted.gradients) == (2 * weight, weight)
    assert {parameter.dtype for parameter in model.parameters()} == {dtype}
    assert {getattr(parameter.grad, "dtype", None) for parameter in model.parameters()} == {dtype}
    assert torch.utils.swap_tensors is own


def test_table_has_a_row_for_each_phase_in_one_unit() -> None:
    report = MemoryReport(
        (
            PhaseMemory("forward", MemorySnapshot(3 * 2**20, activations=3 * 2**20), 2**30, 2**31),
            PhaseMemory("backward", MemorySnapshot(2**30, gradients=2**30), 3 * 2**29, 2**31),
        ),
        (),
    )
    lines = report.table().splitlines()
    assert lines[0].split("  ")[0] == "peak [GiB]"
    assert lines[0].endswith("allocated  reserved")
    assert " ".join(lines[1].split()) == "forward 0.00 0.00 0.00 0.00 0.00 0.00 1.00 2.00"
    assert " ".join(lines[2].split()) == "backward * 1.00 0.00 1.00 0.00 0.00 0.00 1.50 2.00"
    assert len({len(line) for line in lines}) == 1
    counted_only = MemoryReport((PhaseMemory("forward", MemorySnapshot(512)),), ())
    assert "allocated" not in counted_only.table()
    assert counted_only.table().startswith("peak [B]")


def test_timeline_is_a_picture_of_what_was_alive(tmp_path: Path) -> None:
    model = two_layers()
    with measure_memory(model) as measured:
        step(model, torch.optim.AdamW(model.parameters()))
    path = measured.report.save_timeline(tmp_path / "step.svg")
    text = path.read_text(encoding="utf-8")
    ElementTree.fromstring(text)
    for drawn in ("parameters", "optimizer states", "temporaries", "forward", "backward"):
        assert f"<!-- {drawn} -->" in text
    for colour in ("#0072b2", "#009e73", "#e69f00", "#56b4e9", "#d55e00"):
        assert f"fill: {colour}" in text
    with pytest.raises(ValueError, match=r"ends in \.svg"):
        measured.report.save_timeline(tmp_path / "step.png")
    with measure_memory(timeline=False) as unrecorded:
        torch.empty(4)
    with pytest.raises(ValueError, match="timeline=True"):
        unrecorded.report.save_timeline(tmp_path / "none.svg")


def test_long_timelines_keep_their_peak() -> None:
    events = [
        MemoryEvent("op", "forward", MemorySnapshot(total, activations=total))
        for total in [10] * 9000 + [1000] + [10] * 9000
    ]
    shown = thinned(events)
    assert len(shown) <= MOST_POINTS
    assert max(event.memory.total for event in shown) == 1000


@pytest.mark.parametrize("wrong", ["x", 3, ["x"], nn.Linear])
def test_what_is_no_model_or_optimizer_is_named_at_once(wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"wants a model .*, got "):
        measure_memory(wrong)
    with pytest.raises(TypeError, match=r"wants an optimizer .*, got "):
        measure_memory(nn.Linear(2, 2), wrong)


def test_the_allocators_peak_goes_to_its_phase() -> None:
    class Allocator:
        peaks = iter([(5, 8), (9, 16), (7, 16), (3, 16)])

        def peak_since_reset(self) -> tuple[int, int]:
            return next(self.peaks)

    tracker = _PhaseTracker((), (), torch.device("cpu"), False, Allocator())  # type: ignore
    with tracker:
        weight = torch.ones(4, requires_grad=True)
        (weight * 2).sum().backward()
        (weight * 2).sum()
        tracker.end_phase()
    # forward, then backward, then forward twice: the larger of the two stands.
    assert tracker.allocator_peaks == {"forward": (7, 16), "backward": (9, 16)}


class Rows(torch.utils.data.Dataset):  # type: ignore[type-arg]
    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        ids = torch.arange(8)
        return {"input_ids": ids, "labels": ids}


def test_callback_measures_the_first_steps(tmp_path: Path) -> None:
    config = LlamaConfig(
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        vocab_size=64,
    )
    model = LlamaForCausalLM(config)
    weights = sum(p.numel() * 4 for p in model.parameters())
    callback = MeasureMemoryCallback(
        table_path=tmp_path / "table.txt", timeline_path=tmp_path / "timeline.svg"
    )
    args = TrainingArguments(
        output_dir=str(tmp_path),
        per_device_train_batch_size=2,
        num_train_epochs=1,
        save_strategy="no",
        report_to="none",
        use_cpu=True,
        disable_tqdm=True,
        dataloader_pin_memory=False,
    )
    Trainer(model=model, args=args, train_dataset=Rows(), callbacks=[callback]).train()
    assert callback.report is not None
    phases = {phase.name: phase.counted for phase in callback.report.phases}
    assert phases["optimizer"].optimizer_states >= 2 * weights
    assert phases["optimizer"].gradients == weights
    assert "optimizer states" in (tmp_path / "table.txt").read_text()
    assert "<svg" in (tmp_path / "timeline.svg").read_text()
    with pytest.raises(ValueError, match="steps must be 1 or more"):
        MeasureMemoryCallback(0)
