"""How fast ``memlint check`` is, as ratios to other linters in one run on one machine.

    python -m tests.bench.linter PATH... [--peers-venv VENV] [--rounds 3] [--slow]

Wall and CPU seconds (of the process and its children, the best of several rounds) over the given
folders, each time as users would call the tool: its default rules, concise output, no cache. Peers
that are not in the virtual environment are named as missing. The slow ones (minutes) run once, and
only with ``--slow``. Last come the start-up of a small script and a second run that finds nothing
changed. Measured ratios are printed beside the ones to reach. memlint runs as installed: with its
bytecode cached, whatever the environment says of writing it.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

SMALL_SCRIPT = """\
from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer

dataset = load_dataset("trl-lib/Capybara", split="train")
tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
config = SFTConfig(output_dir="out", packing=True, max_length=2048)
trainer = SFTTrainer("Qwen/Qwen3-0.6B", args=config, train_dataset=dataset)
trainer.train()
"""


class Time(NamedTuple):
    """Seconds; cpu includes children. status: what the command exited with."""

    wall: float
    cpu: float
    status: int


class Tool(NamedTuple):
    """A command to measure. ``slow``: takes minutes on a large tree."""

    name: str
    executable: str
    arguments: tuple[str, ...]
    version: tuple[str, ...] = ("--version",)
    slow: bool = False


PEERS = (
    Tool("ruff", "ruff", ("check", "--isolated", "--no-cache", "--output-format", "concise")),
    Tool("flake8", "flake8", ("--isolated", "-j", "2", "--select", "F"), slow=True),
    Tool("Fixit", "fixit", ("--quiet", "lint"), slow=True),
    Tool("TorchFix", "torchfix", (), slow=True),
    Tool("torch-preflight", "torch-preflight", (), slow=True),
)


def measure(command: Sequence[str], folder: str, rounds: int) -> Time:
    """The best of ``rounds`` runs of ``command`` in ``folder``."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    best: Time | None = None
    for _ in range(rounds):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        start = perf_counter()
        done = subprocess.run(
            command,
            cwd=folder,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        )
        wall = perf_counter() - start
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        if best is None:
            best = Time(wall, cpu, done.returncode)
        best = Time(min(best.wall, wall), min(best.cpu, cpu), done.returncode)
    assert best is not None
    return best


def version_of(tool: Tool, executable: str) -> str:
    done = subprocess.run([executable, *tool.version], capture_output=True, text=True, check=False)
    words = (done.stdout or done.stderr).split()
    return next((word.strip(",") for word in words if word[:1].isdigit()), "of unknown version")


def corpus(paths: Sequence[str]) -> str:
    files = [
        file
        for path in paths
        for file in Path(path).rglob("*")
        if file.suffix in (".py", ".ipynb") and file.is_file()
    ]
    megabytes = sum(file.stat().st_size for file in files) / 1e6
    return f"{len(files):,} scripts and notebooks, {megabytes:.1f} MB"


def row(name: str, time: Time, base: Time) -> None:
    print(
        f"{name:32} {time.wall:8.2f} s wall {time.cpu:8.2f} s CPU"
        f"   memlint is {time.cpu / base.cpu:7.1f}x faster in CPU"
    )


def large(options: argparse.Namespace, memlint: list[str], folder: str) -> None:
    paths = [os.path.abspath(path) for path in options.paths]
    print(f"{corpus(paths)}; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores\n")
    concise = ["check", "--output-format", "concise"]
    cold = measure([*memlint, *concise, "--no-cache", *paths], folder, options.rounds)
    full = measure([*memlint, "check", "--no-cache", *paths], folder, options.rounds)
    subprocess.run([*memlint, "check", *paths], cwd=folder, stdout=subprocess.DEVNULL, check=False)
    warm = measure([*memlint, "check", *paths], folder, options.rounds)
    row("memlint, cold, concise", cold, cold)
    row("memlint, cold, fixes shown", full, cold)
    row("memlint, nothing changed", warm, cold)
    print(f"  nothing changed: {warm.wall:.3f} s wall (to reach: 0.15)\n")
    for tool in PEERS:
        bin_folder = Path(options.peers_venv or sys.prefix) / "bin"
        executable = shutil.which(tool.executable, path=str(bin_folder))
        if executable is None:
            print(f"{tool.name:32} is not installed in {bin_folder.parent}")
            continue
        if tool.slow and not options.slow:
            print(f"{tool.name:32} takes minutes: left out without --slow")
            continue
        # ruff is timed as often as memlint; of minutes one run is enough.
        rounds = 1 if tool.slow else options.rounds
        time = measure([executable, *tool.arguments, *paths], folder, rounds)
        row(f"{tool.name} {version_of(tool, executable)} (exit {time.status})", time, cold)
        if tool.name == "ruff":
            print(f"  memlint takes {cold.wall / time.wall:.1f}x ruff's wall (to reach: 8)")


def small(memlint: list[str], folder: str) -> None:
    script = Path(folder) / "train.py"
    script.write_text(SMALL_SCRIPT)
    click = measure([sys.executable, "-c", "import click"], folder, 10)
    print(f"\n{'import click':32} {click.wall * 1e3:8.0f} ms wall {click.cpu * 1e3:8.0f} ms CPU")
    # Findings with fixes shown as diffs take libcst, whose import alone takes three times click's.
    for name, arguments in (
        ("one small script, cold", ("--no-cache", "--output-format", "concise", "train.py")),
        ("the same, fixes shown as diffs", ("--no-cache", "train.py")),
        ("the same again, from the cache", ("train.py",)),
    ):
        subprocess.run(
            [*memlint, "check", *arguments], cwd=folder, stdout=subprocess.DEVNULL, check=False
        )
        time = measure([*memlint, "check", *arguments], folder, 10)
        print(
            f"{name:32} {time.wall * 1e3:8.0f} ms wall {time.cpu * 1e3:8.0f} ms CPU"
            f"   {time.wall / click.wall:.1f}x wall, {time.cpu / click.cpu:.1f}x CPU (reach 2.5)"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("paths", nargs="*", help="folders to check")
    parser.add_argument("--peers-venv", help="a virtual environment with the other linters")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--slow", action="store_true", help="also those that take minutes")
    options = parser.parse_args()
    memlint = [sys.executable, "-m", "memlint"]
    with tempfile.TemporaryDirectory() as folder:
        if options.paths:
            large(options, memlint, folder)
        small(memlint, folder)


if __name__ == "__main__":
    main()
