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
    assert "longer than 1.2 seconds" in str(records["hangs"]["error"])
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


def _steps_of_this_file(monkeypatch: pytest.MonkeyPatch, steps: tuple[Step, ...]) -> None:
    monkeypatch.setattr(sys.modules["tests.gpu.test_harness"], "STEPS", steps)
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr(harness, "environment", lambda: {"device": "a stand-in"})
    monkeypatch.setattr(harness, "step_modules", lambda: ["tests.gpu.test_harness"])


def test_a_run_goes_on_where_it_was_cut_short(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _steps_of_this_file(monkeypatch, STEPS[:3])
    arguments = ["--out", str(tmp_path)]
    ran: list[str] = []
    own = harness._outcome

    def outcome(module: str, step: Step, path: Path, seconds: float) -> dict[str, object]:
        ran.append(step.name)
        if step.name == "fails" and ran.count("fails") < 2:
            raise KeyboardInterrupt
        return own(module, step, path, seconds)

    monkeypatch.setattr(harness, "_outcome", outcome)
    with pytest.raises(KeyboardInterrupt):
        __main__.main(arguments)
    assert json.loads((tmp_path / "results.json").read_text())["steps"][0]["status"] == "ok"
    assert __main__.main(arguments) == 1
    assert ran == ["succeeds", "fails", "fails", "wants_a_peer"]
    rows = (tmp_path / "table.txt").read_text().splitlines()
    assert [row.split()[:2] for row in rows] == [
        ["step", "ended"],
        ["succeeds", "ok"],
        ["fails", "failed"],
        ["wants_a_peer", "not"],
    ]
    assert "answer 42" in rows[1]
    assert "RuntimeError: as meant" in rows[2]
    assert capsys.readouterr().out.endswith("\n".join(rows) + "\n")
    __main__.main(arguments)
    assert ran[4:] == ["fails"]
    __main__.main([*arguments, "--again", "--only", "succeeds"])
    assert ran[5:] == ["succeeds"]
    monkeypatch.setattr(harness, "environment", lambda: {"device": "another"})
    __main__.main([*arguments, "--only", "succeeds"])
    assert ran[6:] == ["succeeds"]


def test_a_step_that_takes_the_machine_down_is_not_tried_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def outcome(module: str, step: Step, path: Path, seconds: float) -> dict[str, object]:
        raise KeyboardInterrupt

    monkeypatch.setattr(harness, "_outcome", outcome)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            harness.run_step("tests.gpu.test_harness", STEPS[0], tmp_path, {"device": "it"})
    record = harness.run_step("tests.gpu.test_harness", STEPS[0], tmp_path, {"device": "it"})
    assert record["status"] == "failed"
    assert "ended 2 times in this step" in str(record["error"])
