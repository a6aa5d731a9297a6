"""The command of ``tests.two_steps``; see the package's docstring."""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import click

_ROOT = Path(__file__).parents[2]
_STAGES = {"before": None, "safe": (), "all": ("--unsafe-fixes",)}
# Floating-point noise between a safe fix and the script as it was, fp32, two steps.
_SAME = 1e-4


class Job(NamedTuple):
    """One script of a checkout."""

    repository: str
    script: str
    data: dict[str, str]
    arguments: list[str]
    folder: str
    environment: dict[str, str]


def jobs(names: tuple[str, ...]) -> list[Job]:
    """The scripts of ``scripts.toml``, or those whose name holds one of ``names``."""
    table = tomllib.loads(Path(__file__).with_name("scripts.toml").read_text(encoding="utf-8"))
    found = [
        Job(
            entry["repository"],
            entry["script"],
            entry.get("data", {"*": "text"}),
            entry.get("arguments", []),
            entry.get("folder", "."),
            entry.get("environment", {}),
        )
        for entry in table["script"]
    ]
    return [
        job
        for job in found
        if not names or any(n in f"{job.repository}/{job.script}" for n in names)
    ]


def stage(job: Job, checkouts: Path, fix: tuple[str, ...] | None, timeout: int) -> dict[str, Any]:
    """Run ``job`` in a copy of its checkout, fixed first if ``fix`` says how."""
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / "checkout"
        source = checkouts / job.repository.replace("/", "__")
        shutil.copytree(
            source, copy, ignore=shutil.ignore_patterns(".git", "*.ipynb", "data", "*.csv")
        )
        script = copy / job.script
        fixed = ""
        if fix is not None:
            done = subprocess.run(
                [sys.executable, "-m", "memlint", "fix", "--no-cache", "--exit-zero",
                 "--target", "trl=1.16,transformers=5.23,torch=2.13", *fix, str(script)],
                capture_output=True, text=True, check=False, cwd=copy, env=_environment(),
            )  # fmt: skip
            if done.returncode:
                return {"ok": False, "error": f"memlint: {done.stdout}{done.stderr}"[:800]}
            fixed = script.read_text(encoding="utf-8", errors="replace")
        written = Path(scratch) / "job.json"
        written.write_text(
            json.dumps(
                {
                    "checkout": str(copy),
                    "folder": str(copy / job.folder),
                    "script": str(script),
                    "data": job.data,
                    "arguments": job.arguments,
                    "environment": job.environment,
                }
            )
        )
        try:
            run = subprocess.run(
                [sys.executable, "-m", "tests.two_steps.child", str(written)],
                capture_output=True, text=True, check=False, timeout=timeout, cwd=scratch,
                env=_environment(),
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return {"ok": False, "error": f"still running after {timeout} s"}
        line = run.stdout.rpartition("@@@")[2]
        try:
            result: dict[str, Any] = json.loads(line)
        except ValueError:
            result = {"ok": False, "error": run.stderr[-400:]}
        result["text"] = fixed
        return result


def _environment() -> dict[str, str]:
    path = os.pathsep.join(map(str, (_ROOT, _ROOT / "rules", _ROOT / "runtime")))
    return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}


def same(one: list[dict[str, Any]], other: list[dict[str, Any]]) -> bool | None:
    """Whether two runs had the same losses up to noise; None where one had none."""
    if not one or not other:
        return None
    return len(one) == len(other) and all(
        math.isclose(a["loss"], b["loss"], rel_tol=_SAME, abs_tol=_SAME)
        for a, b in zip(one, other, strict=True)
    )


@click.command()
@click.argument("checkouts", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--only", multiple=True, help="Scripts whose name holds this.")
@click.option("--timeout", default=240, help="Seconds for one run.")
@click.option("--workers", default=2)
@click.option("--show", is_flag=True, help="Print the fixed text of scripts that fail.")
def main(checkouts: Path, only: tuple[str, ...], timeout: int, workers: int, show: bool) -> None:
    """Run the scripts of scripts.toml below CHECKOUTS before and after their fixes."""
    chosen = jobs(only)
    with ThreadPoolExecutor(workers) as pool:
        results = pool.map(
            lambda job: {
                name: stage(job, checkouts, fix, timeout) for name, fix in _STAGES.items()
            },
            chosen,
        )
        counts: dict[str, int] = {}
        for job, stages in zip(chosen, results, strict=True):
            words = []
            for name, result in stages.items():
                steps = len(result.get("losses", ()))
                ran = bool(result["ok"] or steps >= 2)
                counts[name] = counts.get(name, 0) + ran
                words.append(f"{name}: {'ran' if ran else 'failed'} ({steps} steps)")
            equal = same(stages["before"].get("losses", []), stages["safe"].get("losses", []))
            words.append({None: "", True: "same losses", False: "LOSSES DIFFER"}[equal])
            click.echo(f"{job.repository}/{job.script}: {', '.join(words)}")
            for name, result in stages.items():
                if not result["ok"]:
                    click.echo(f"    {name}: line {result.get('line')}: {result.get('source', '')!r}")
                    click.echo(f"        {result['error']}\n        {result.get('deepest', '')}")
                    if show and result.get("text"):
                        click.echo(result["text"])
            if equal is False:
                click.echo(f"    {stages['before']['losses']} {stages['safe']['losses']}")
        click.echo(f"scripts: {len(chosen)}, ran: {counts}")


if __name__ == "__main__":
    main()
