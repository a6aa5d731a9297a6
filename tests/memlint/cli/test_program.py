"""The program as a process: pipes, closed and full outputs, interrupts, files opened once."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from memlint import __version__
from memlint.cli.main import run
from memlint.source.reading import read
from tests.memlint.cli.inputs import write


def test_interrupt_is_told_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    write("a.py", "alpha\n")
    monkeypatch.setattr("memlint.run.session.check_data", interrupt)
    for command in (["check"], ["fix", "--diff"]):
        assert run([*command, "--no-cache"]) == 130
        assert capsys.readouterr().err.strip() == "interrupted"
    assert run(["fix", "--no-cache"]) == 130
    assert capsys.readouterr().err.strip() == "interrupted; no file was left half-written"


def test_version_help_and_module() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "memlint", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"memlint {__version__}\n"
    for command in ("check", "fix", "rule", "rules", "target"):
        assert run([command, "--help"]) == 0


def test_a_closed_pipe_is_no_error() -> None:
    write("a.py", "def f(:\n" * 3)
    for number in range(300):
        write(f"f{number}.py", "def f(:\n# trl torch transformers SFTTrainer TrainingArguments\n")
    files = " ".join(f"f{number}.py" for number in range(300))
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m memlint check --no-cache {files} | head -1"],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.stderr == ""
    assert done.stdout.startswith("f0.py:1:7: MEM002 does not parse")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_output_that_cannot_be_written_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("x = 1\n")
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "memlint", "rules"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
            check=False,
        )
    assert done.returncode == 2
    assert done.stderr == "error: the output could not be written: No space left on device\n"


@pytest.mark.parametrize("command", ["check", "fix"])
def test_a_file_is_opened_once(command: str, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    # Scripts: of what scripts may import, those that lead to it are looked for.
    (folder / "train.py").write_text(
        "from trl import SFTConfig, SFTTrainer\nSFTTrainer('a', args=SFTConfig(bf16=1)).train()\n"
    )
    (folder / "old.py").write_text(
        "from transformers import Trainer, TrainingArguments\n"
        "Trainer(args=TrainingArguments('out', evaluation_strategy='no')).train()\n"
    )
    script = (
        "import sys\n"
        "opened = []\n"
        "sys.addaudithook(lambda event, given: opened.append(str(given[0]))"
        " if event == 'open' else None)\n"
        "from memlint.cli.main import run\n"
        "run(sys.argv[1:])\n"
        "for name in ('train.py', 'old.py'):\n"
        "    print('opened', sum(path.endswith(name) for path in opened))\n"
    )
    target = "trl=1.16,transformers=5.23"
    done = subprocess.run(
        [sys.executable, "-c", script, command, "--no-cache", "--target", target],
        capture_output=True, text=True, cwd=folder, check=False,
    )  # fmt: skip
    assert done.stdout.splitlines()[-2:] == ["opened 1", "opened 1"], done.stdout + done.stderr
    if command == "fix":
        assert "eval_strategy" in (folder / "old.py").read_text()


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="the shell gives pipes as files here")
def test_a_pipe_that_is_named_is_read() -> None:
    write("a.py", "def f(:\n")
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m memlint check --no-cache <(cat a.py)"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "does not parse" in done.stdout


def test_an_unexpected_error_costs_one_file_and_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write("a.py", "alpha\n")
    write("b.py", "alpha\n")

    def fail(path: str, *arguments: object) -> object:
        if path == "a.py":
            raise ZeroDivisionError("a surprise")
        return read(path, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr("memlint.source.reading.read", fail)
    for command in ("check", "fix"):
        assert run([command, "--no-cache"]) == 2
        out = "".join(capsys.readouterr())
        assert out.count("error: a.py: memlint failed (ZeroDivisionError: a surprise") == 1
        assert "Traceback" not in out
    assert Path("a.py").read_text() == "alpha\n"
    assert Path("b.py").read_text() == "omega\n"


def test_a_closed_standard_output_is_no_error() -> None:
    write("a.py", "x = 1\n")
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m memlint check --no-cache a.py >&-"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["check", "--diff"], "use `memlint fix --diff`"),
        (["check", "--statistics", "--output-format", "sarif"], "text or JSON, not sarif"),
    ],
)
def test_what_people_try_is_answered(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write("a.py", "alpha\n")
    Path("folder").mkdir()
    assert run(arguments) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize("name", ["sft.yaml", "settings.json", "run.sh", "Makefile"])
def test_estimates_name_what_they_take(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    write(name, "model_name_or_path: a\n")
    write("log", "CUDA out of memory. Tried to allocate 2.00 GiB.\n")
    for command in (["estimate", name], ["oom", "log", name]):
        assert run(command) == 2
        (line,) = capsys.readouterr().err.splitlines()
        reasons = ("describe the run with --settings FILE.json", "broken JSON")
        assert line.startswith((f"error: {name} ", f"error: {name}:1 "))
        assert any(reason in line for reason in reasons)


@pytest.mark.parametrize(
    "arguments",
    [
        ["check", "--nope"],
        ["checks"],
        ["estimate", "missing.py"],
        ["compare", "a", "b"],
        ["rule", "MEM999"],
        ["check", "--isolated", "--config", "a.toml"],
        ["check", "missing.py"],
    ],
)
def test_all_errors_begin_alike(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == 2
    captured = capsys.readouterr()
    said = (captured.out + captured.err).splitlines()
    (line,) = (line for line in said if re.match("(?i)(error|memlint): ", line))
    assert line.startswith("error: ")
