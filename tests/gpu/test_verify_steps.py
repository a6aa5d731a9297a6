"""What `correctness_verify` runs and says, as far as no GPU is needed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from memlint.cli.verifying import _Fixing
from tests.gpu import correctness_verify
from tests.gpu.correctness_verify import figures, verify_all
from tests.gpu.verified_scripts import SCRIPTS

_TARGET = "trl=1.16.0,transformers=5.17.0,peft=0.19.0,accelerate=1.15.0,torch=2.11.0"
_LEAST = 0.3 * 2**30


@pytest.mark.parametrize("name", SCRIPTS)
def test_each_script_has_fixes_that_are_predicted_to_save_memory(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    script = SCRIPTS[name]
    Path("train.py").write_text(script.at(script.size))
    peaks = []
    for unsafe in (False, True)[: 1 + bool(script.unsafe)]:
        fixing = _Fixing(script.unsafe if unsafe else (), unsafe, _TARGET)
        fixing.texts("train.py")
        assert set(script.unsafe) <= {each.code for each in fixing.fixed} or not unsafe
        assert fixing.peaks is not None
        peaks.append(fixing.peaks)
    saved = sum(each.saving.high for each in fixing.fixed if each.saving is not None)
    assert max(saved, *(before - after for before, after in peaks)) > _LEAST
    assert max(before for before, _ in peaks) < 18 * 2**30  # of an 80 GiB GPU, four at once


def test_a_held_checkpoint_is_in_the_peak_from_which_it_is_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    script = SCRIPTS["reward"]
    Path("train.py").write_text(script.at(script.size))
    fixing = _Fixing((), False, _TARGET)
    fixing.texts("train.py")
    (checkpoint,) = [each.saving for each in fixing.fixed if each.saving is not None]
    assert fixing.peaks is not None
    before, after = fixing.peaks
    assert checkpoint.low <= before - after <= checkpoint.high


def _facts(before: int | None, after: int | None, error: str = "") -> dict[str, Any]:
    run = {"error": "", "log": "", "allocated": before, "reserved": before}
    return {
        "verdict": "same",
        "moved": 0.0,
        "noise": 1e-7,
        "fixes": [{"code": "MEM301", "saving": {"low": 2 << 30, "high": 4 << 30}}],
        "predicted": (6 << 30, 3 << 30),
        "before": run,
        "after": {**run, "error": error, "allocated": after, "reserved": after},
    }


def test_what_is_recorded() -> None:
    found = figures(_facts(8 << 30, 4 << 30))
    assert (found["drop"], found["drop_predicted"], found["ratio"]) == (4.0, 3.0, 0.75)
    assert found["predicted"] == [6.0, 3.0]
    assert found["savings"] == {"MEM301": 3.0}
    assert "ratio" not in figures(_facts(None, None))
    assert figures(_facts(1, None, "ValueError"))["error"] == "ValueError"


def test_only_safe_fixes_fail_the_step(monkeypatch: pytest.MonkeyPatch) -> None:
    moved = {True: {"exit": 1, "ratio": 1.0}, False: {"exit": 0, "ratio": 1.0}}
    monkeypatch.setattr(correctness_verify, "_verified", lambda s, z, f, unsafe: moved[unsafe])
    assert len(verify_all(tuple(SCRIPTS))) > len(SCRIPTS)
    monkeypatch.setattr(correctness_verify, "_verified", lambda s, z, f, unsafe: moved[not unsafe])
    with pytest.raises(AssertionError, match="stop or move"):
        verify_all(tuple(SCRIPTS))
