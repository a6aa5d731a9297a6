"""The GPU harness on a machine without one: it lists, refuses, records failures and goes on."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pytest

from tests.gpu import __main__, harness
from tests.gpu.harness import NotMeasuredError, Step


def _succeed() -> dict[str, object]:
    return {"answer": 42}


def _fail() -> dict[str, object]:
    raise RuntimeError("as meant")


def _want_a_peer() -> dict[str, object]:
    harness.require("no_such_peer")
    return {}


def _hang() -> dict[str, object]:
    time.sleep(60)
    return {}


# Children import this file: it imports no torch.
STEPS = (
    Step("succeeds", _succeed),
    Step("fails", _fail),
    Step("wants_a_peer", _want_a_peer),
    Step("hangs", _hang, minutes=0.02),
)


def test_lists_steps_without_a_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    assert __main__.main(["--list"]) == 0
    steps = harness.load_steps(harness.step_modules())
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == [
        step.name for _, step in steps
    ]


def test_correctness_comes_before_benchmarks() -> None:
    kinds = [name.rsplit(".", 1)[1].split("_")[0] for name in harness.step_modules()]
    assert kinds == sorted(kinds, key=["correctness", "bench"].index)


def test_says_that_there_is_no_gpu(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr(harness, "step_modules", lambda: [__name__])
    assert __main__.main(["--out", str(tmp_path / "results")]) == __main__.NO_GPU
    assert capsys.readouterr().err.startswith("no CUDA GPU here")
    assert not (tmp_path / "results").exists()
    assert __main__.main(["--only", "no such step"]) == 2


def test_a_step_runs_in_its_own_process_and_is_recorded(tmp_path: Path) -> None:
    module = "tests.gpu.test_harness"
    records = {step.name: harness.run_step(module, step, tmp_path) for step in STEPS}
    assert records["succeeds"]["status"] == "ok"
    assert records["succeeds"]["result"] == {"answer": 42}
    assert records["fails"]["status"] == "failed"
    assert "RuntimeError: as meant" in str(records["fails"]["error"])
    assert records["wants_a_peer"]["status"] == "not measured"
    assert "no_such_peer is not installed" in harness.summarize(records["wants_a_peer"])
    assert "longer than 0.02 minutes" in str(records["hangs"]["error"])
    for name, record in records.items():
        assert json.loads((tmp_path / f"{name}.json").read_text()) == record


def test_environment_names_what_is_missing() -> None:
    environment = harness.environment()
    assert isinstance(environment["versions"], dict)
    assert environment["versions"]["torch"] is not None
    assert set(environment["not_installed"]) == {  # type: ignore[call-overload]
        name for name, version in environment["versions"].items() if version is None
    }


def test_refuses_steps_that_do_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules[__name__]
    monkeypatch.setattr(module, "STEPS", (Step("long", _succeed, minutes=20),))
    with pytest.raises(ValueError, match="split it"):
        harness.load_steps([__name__])
    monkeypatch.setattr(module, "STEPS", (Step("a", _succeed), Step("a", _fail)))
    with pytest.raises(ValueError, match="given twice: a"):
        harness.load_steps([__name__])
    with pytest.raises(NotMeasuredError):
        _want_a_peer()
