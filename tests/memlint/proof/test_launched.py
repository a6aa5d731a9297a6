"""Launch commands that are compared: what is started in the place of their scripts."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from memlint.proof.comparing import Job, Run, Verified, _run, verify
from memlint.proof.launching import LaunchError, jobs_of

LOOP = """\
import sys, torch, yaml

torch.distributed.init_process_group("gloo")
rank = torch.distributed.get_rank()
torch.manual_seed(1)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 1))
rate = yaml.safe_load(open(sys.argv[1]))["rate"]
optimizer = torch.optim.SGD(model.parameters(), lr=rate)
rows = torch.randn(2, 16, 8)[rank]
for step in range(9):
    loss = (model(rows) - 1).pow(2).mean() + rank
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def unchanged(path: str, data: bytes | None, beside: str) -> tuple[str, str]:
    text = Path(path).read_text() if data is None else data.decode()
    return text, text


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Job:
    folder = tmp_path / "project"
    (folder / "part").mkdir(parents=True)
    monkeypatch.chdir(folder)
    monkeypatch.setattr("memlint.proof.launching._GPUS", ())
    for name in ("learn.py", "part/other.py"):
        (folder / name).write_text(LOOP)
    (folder / "rates.yaml").write_text("rate: 0.1\n")
    return Job("", str(folder), str(folder), "", seconds=100.0)


def run(words: list[str], job: Job, **texts: str) -> tuple[Job, Job]:
    """texts: what files become, by their name before the dot."""

    def fix(path: str, data: bytes | None, beside: str) -> tuple[str, str]:
        text = unchanged(path, data, beside)[0]
        return text, texts.get(Path(path).stem, text)

    _, before, after = jobs_of(words, job, fix)
    return before, after


@pytest.mark.parametrize(
    ("words", "launcher", "arguments"),
    [
        ("python -u learn.py rates.yaml", ["-u"], ["rates.yaml"]),
        ("torchrun --nproc_per_node=2 learn.py rates.yaml --x 'a b'",
         ["-m", "torch.distributed.run", "--nproc_per_node=2", "--standalone"],
         ["rates.yaml", "--x", "a b"]),
        ("uv run accelerate launch --num_processes 3 -m part.other --rate 1",
         ["-m", "accelerate.commands.launch", "--num_processes", "3", "--multi_gpu",
          "--main_process_port", "0"], ["--rate", "1"]),
        ("python -m torch.distributed.run --nproc_per_node 2 --master_port 3 learn.py",
         ["-m", "torch.distributed.run", "--nproc_per_node", "2", "--master_port", "3"], []),
        ("python -m torch.distributed.run learn.py",
         ["-m", "torch.distributed.run", "--standalone"], []),
        ("deepspeed --num_gpus 2 learn.py --deepspeed z.json",
         ["-m", "deepspeed.launcher.runner", "--num_gpus", "2"], ["--deepspeed", "z.json"]),
    ],
)  # fmt: skip
def test_a_launcher_keeps_its_words(
    words: str, launcher: list[str], arguments: list[str], job: Job, tmp_path: Path
) -> None:
    (tmp_path / "project" / "start.sh").write_text(f"set -e\n{words}\npython learn.py\n")
    before, after = run(["start.sh:2"], job)
    assert before.launcher[0] == sys.executable
    assert list(before.launcher[1:]) == [*launcher, "--module" if "deepspeed" in words else "-m"]
    assert list(before.arguments) == arguments
    assert before.script == os.path.realpath("part/other.py" if "other" in words else "learn.py")
    assert before.environment["ACCELERATE_USE_CPU"] == "true"
    assert after.text == before.text == LOOP


_TORCHRUN = ["-m", "torch.distributed.run"]


@pytest.mark.parametrize(
    ("words", "launcher", "arguments", "module"),
    [
        ("tune run recipe_a --config small lr=1", [], ["--config", "CONFIGS/small.yaml", "lr=1"],
         "recipes.recipe_a"),
        ("uv run tune run --nproc_per_node 2 recipe_a --config rates.yaml",
         [*_TORCHRUN, "--nproc_per_node", "2", "--standalone"], ["--config", "rates.yaml"],
         "recipes.recipe_a"),
        ("axolotl train rates.yaml --debug",
         ["-m", "accelerate.commands.launch", "--num_processes=1", "--main_process_port", "0"],
         ["rates.yaml", "--debug"], "axolotl.cli.train"),
        ("accelerate launch --num_processes 2 -m axolotl.cli.train rates.yaml",
         ["-m", "accelerate.commands.launch", "--num_processes", "2", "--multi_gpu",
          "--main_process_port", "0"], ["rates.yaml"], "axolotl.cli.train"),
        ("llamafactory-cli train rates.yaml rate=2", [], ["rates.yaml", "rate=2"], ""),
        ("NPROC_PER_NODE=2 llamafactory-cli train rates.yaml",
         [*_TORCHRUN, "--nproc_per_node=2", "--standalone"], ["rates.yaml"], ""),
    ],
)  # fmt: skip
def test_a_program_starts_a_file_of_its_own(
    words: str, launcher: list[str], arguments: list[str], module: str, job: Job,
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    packages = tmp_path / "packages"
    for name in ("torchtune/__init__.py", "recipes/recipe_a.py", "recipes/configs/small.yaml",
                 "axolotl/__init__.py", "axolotl/cli/train.py", "llamafactory/__init__.py",
                 "llamafactory/launcher.py"):  # fmt: skip
        (packages / name).parent.mkdir(parents=True, exist_ok=True)
        (packages / name).write_text(LOOP if name.endswith(".py") else "rate: 1\n")
    monkeypatch.syspath_prepend(packages)
    Path("start.sh").write_text(words)
    before, after = run(["start.sh"], job, rates="rate: 2\n")
    assert list(before.launcher[1:]) == [*launcher, "-m"]
    configs = str(packages / "recipes" / "configs")
    assert list(before.arguments) == [each.replace("CONFIGS", configs) for each in arguments]
    assert before.module == module
    assert before.text == LOOP
    assert before.script.startswith(str(packages))
    has_recipe = "rates.yaml" in words
    assert dict(after.files) == (
        {os.path.realpath("rates.yaml"): "rate: 2\n"} if has_recipe else {}
    )


def test_what_is_fixed_goes_to_its_place(job: Job) -> None:
    words = ["python", "learn.py", "rates.yaml", "--size", "1"]
    fixed = {"launch": "python learn.py rates.yaml --size 2", "learn": "pass", "rates": "rate: 1"}
    before, after = run(words, job, **fixed)
    assert after.arguments == ("rates.yaml", "--size", "2")
    assert (after.text, before.text) == ("pass", LOOP)
    assert dict(after.files) == {os.path.realpath("rates.yaml"): "rate: 1"}
    assert not before.files


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("composer learn.py", "expected a command such as"),
        ("axolotl train rates.yaml", "axolotl/cli/train.py is not here"),
        ("python gone.py", "gone.py is not here"),
        ("trl sft --config gone.yaml", "gone.yaml is not here"),
        ("rates.yaml", "such as `trl sft --config rates.yaml`"),
        ("python learn.py $RATE", "the shell's to say"),
        ("echo learn.py", "expected a command such as"),
    ],
)
def test_what_cannot_be_launched_is_said(words: str, said: str, job: Job) -> None:
    with pytest.raises(LaunchError, match=said.replace("$", r"\$")):
        run(words.split(), job)


@pytest.mark.matrix
def test_two_processes_read_the_recipe_that_is_fixed(job: Job) -> None:
    words = ["torchrun", "--nproc_per_node", "2", "learn.py", "rates.yaml"]
    verified = verify(*run(words, job, rates="rate: 0.2\n"))
    assert (verified.before.error, verified.after.error) == ("", "")
    assert verified.before.processes == 2
    # The second process adds 1 to its losses: the mean has half of it.
    assert 0.5 < verified.before.losses[2] < verified.before.losses[0] < 3.5
    assert verified.verdict == "moved"
    assert verified.moved > 100 * verified.noise
    assert Path("rates.yaml").read_text() == "rate: 0.1\n"


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("line", "seconds", "said"),
    [("raise ValueError('no rows')", 100.0, "ValueError: no rows (line 11)"),
     ("import os; os._exit(9)", 100.0, ""),
     ("import time; time.sleep(600)", 20.0, "still running after 20 s")],
)  # fmt: skip
def test_a_process_that_fails_takes_the_others_along(
    line: str, seconds: float, said: str, job: Job, tmp_path: Path
) -> None:
    Path("learn.py").write_text(
        LOOP.replace("    loss = ", f"    if rank and step: {line}\n    loss = ")
        + f"open({str(Path.cwd() / 'left')!r} + str(rank), 'w')\n"
    )
    words = ["torchrun", "--nproc_per_node", "2", "learn.py", "rates.yaml"]
    before, _ = run(words, job)
    one = _run(before._replace(seconds=seconds), str(tmp_path / "run"))
    assert one.error
    assert said in one.error
    assert Verified(one, Run(), one, 0.0, 0.0).verdict == "no answer"
    time.sleep(0.5)
    assert not [pid for pid in filter(str.isdigit, os.listdir("/proc")) if _is_ours(pid)]


def _is_ours(pid: str) -> bool:
    """True if a process works in the folder of the test, or in a copy of it."""
    try:
        return b"memlint.proof.child" in Path("/proc", pid, "cmdline").read_bytes() and (
            os.environ["PYTEST_CURRENT_TEST"].encode() in Path("/proc", pid, "environ").read_bytes()
        )
    except OSError:
        return False
