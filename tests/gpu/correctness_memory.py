"""The memory model against a real GPU: allocated and reserved of runs of many kinds."""

from __future__ import annotations

import importlib.metadata
import json
import os
import statistics
import subprocess
import sys
import time

import torch

from memlint.memory import estimate
from tests.fake_steps import give_storage, optimizer_of, shape_of, train_step
from tests.gpu.harness import MissedError, Result, Step
from tests.memory_fakes import Cell, cells, on_gpu

_LIMIT = 24 * 2**30  # other steps run beside them
_SECONDS = 150
_WORST = 0.08
_VARIED = Cell("Qwen/Qwen2.5-0.5B", layers=8, micro_batch=4, seq_len=2048, packed=False)


def _chosen() -> list[Cell]:
    """Every cell that leaves room for other steps; neighbours are told apart by little."""
    fitting = [
        cell
        for cell in cells()
        if cell.predicted() < _LIMIT and cell.settings.get("loss") != "chunked"
    ]
    # Every third first, so that what time does not suffice for is spread over all kinds.
    return [cell for first in range(3) for cell in fitting[first::3]]


def compare(cell: Cell) -> Result:
    """Prediction and measurement of one cell."""
    allocated, reserved = on_gpu(cell)
    predicted = estimate({**cell.run(), **_versions()})
    return {
        "allocated": allocated,
        "allocated_error": predicted.allocated.estimate / allocated - 1,
        "reserved": reserved,
        "reserved_error": predicted.reserved.estimate / reserved - 1,
        "in_interval": predicted.allocated.low <= allocated <= predicted.allocated.high,
        "reserved_in_interval": predicted.reserved.low <= reserved <= predicted.reserved.high,
    }


def compare_all() -> Result:
    """All cells, one after the other. Raises MissedError where one is off by more than 8 %."""
    began = time.monotonic()
    found: dict[str, Result] = {}
    for cell in _chosen():
        if time.monotonic() - began > _SECONDS:
            break
        try:
            found[cell.name] = compare(cell)
        except Exception as error:
            found[cell.name] = {"failed": f"{type(error).__name__}: {error}"[:300]}
    errors = {
        kind: [float(str(one[kind])) for one in found.values() if kind in one]
        for kind in ("allocated_error", "reserved_error")
    }
    summary: Result = {
        "runs": len(errors["allocated_error"]),
        **{
            f"median_{kind}": statistics.median(map(abs, values)) for kind, values in errors.items()
        },
        **{f"worst_{kind}": max(values, key=abs) for kind, values in errors.items()},
    }
    far = [name for name, one in found.items() if not abs(_error(one)) <= _WORST]
    if far:
        raise MissedError(f"off by more than {_WORST:.0%}: {far}", {**summary, "each": found})
    return {**summary, "each": found}


def _error(found: Result) -> float:
    """How far the prediction of allocated memory is off; not a number where the run failed."""
    return float(str(found.get("allocated_error", "nan")))


def varied_lengths() -> Result:
    """What is reserved for padded batches of many lengths, in segments of fixed sizes and growing.

    The setting of the allocator is read once, so each runs in an interpreter of its own.
    """
    found: Result = {}
    for growing in (False, True):
        program = f"from {__name__} import print_varied; print_varied()"
        setting = {"PYTORCH_CUDA_ALLOC_CONF": f"expandable_segments:{growing}"}
        done = subprocess.run(
            [sys.executable, "-c", program], env={**os.environ, **setting},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            raise AssertionError(done.stderr[-2000:])
        predicted = estimate({**_VARIED.run(), **_versions(), "expandable": growing})
        found["growing" if growing else "fixed"] = {
            **json.loads(done.stdout.splitlines()[-1]),
            "predicted_allocated": predicted.allocated.estimate,
            "predicted_reserved": predicted.reserved.estimate,
        }
    return found


def print_varied(device: str = "cuda", steps: int = 60) -> None:
    """Peaks of steps over batches of many lengths, as a line of JSON."""
    lengths = torch.Generator().manual_seed(0)
    rows, longest = shape_of(_VARIED.settings)
    with torch.device(device):
        model = _VARIED.built()
        give_storage(model)
        for parameter in model.parameters():
            parameter.data.normal_(std=0.02)
        optimizer = optimizer_of("adamw_torch", model)
        name: list[object] = []
        for step in range(steps):
            drawn = int(torch.randint(256, longest + 1, (), generator=lengths, device="cpu"))
            ids = torch.randint(0, 100, (rows, longest if step == steps // 2 else drawn))
            train_step(model, ids, optimizer, _VARIED.settings, name)
    peaks = torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()
    print(json.dumps(dict(zip(("allocated", "reserved"), peaks, strict=True))))


def _versions() -> Result:
    """Those installed: what a step needs differs by release."""
    names = ("torch", "transformers", "peft", "trl")
    return {"versions": {name: importlib.metadata.version(name) for name in names}}


STEPS = (Step("memory_model_runs", compare_all, 4), Step("memory_model_varied", varied_lengths, 3))
