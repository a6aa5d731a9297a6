"""What changed in the findings on a folder of checkouts: ``python -m tests.compare_findings``.

``python -m tests.compare_findings record FOLDER OUT.json [--select CODES]`` writes every finding
on FOLDER as this checkout sees it. ``... compare OLD.json NEW.json [--show N]`` counts what is
gone and what is new by code, and shows N of each, with the source line. A finding is known by its
file, line, code and message, so that a changed wording counts as one gone and one new;
``--words`` leaves the message out.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import click


@click.group()
def main() -> None:
    """Record findings, and compare two records."""


@main.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("out", type=click.Path(path_type=Path))
@click.option("--select", default="ALL")
@click.option("--target", help="Versions for every script; else each project's own.")
def record(folder: Path, out: Path, select: str, target: str | None) -> None:
    """Write the findings on FOLDER to OUT."""
    versions = ["--target", target] if target else []
    done = subprocess.run(
        [sys.executable, "-m", "memlint", "check", ".", "--no-cache", "--output-format", "json",
         "--select", select, *versions],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode not in (0, 1, 2) or "Traceback" in done.stderr:
        raise click.ClickException(done.stderr[-2000:])
    rows = [
        {
            "file": each["filename"].removeprefix(str(folder.resolve()) + "/"),
            "row": each["location"]["row"] if each.get("location") else 0,
            "cell": each.get("cell"),
            "code": each["code"],
            "level": each.get("level"),
            "message": each["message"],
            "fix": (each.get("fix") or {}).get("applicability"),
        }
        for each in json.loads(done.stdout)
    ]
    out.write_text(json.dumps(rows, indent=0))
    click.echo(f"{len(rows)} findings")


@main.command()
@click.argument("old", type=click.Path(exists=True, path_type=Path))
@click.argument("new", type=click.Path(exists=True, path_type=Path))
@click.option("--show", default=3, help="How many of each code to show.")
@click.option("--words/--no-words", default=True, help="Whether messages are compared.")
@click.option("--folder", type=click.Path(path_type=Path), help="To show the source lines.")
@click.option("--only", help="One code.")
def compare(
    old: Path, new: Path, show: int, words: bool, folder: Path | None, only: str | None
) -> None:
    """Count what is gone and what is new between two records."""
    before, after = _keyed(old, words), _keyed(new, words)
    gone, fresh = before - after, after - before
    codes = sorted({key[3] or "" for key in [*before, *after]})
    click.echo(f"{'code':8} {'before':>7} {'after':>7} {'gone':>6} {'new':>6}")
    for code in codes:
        if only and code != only:
            continue
        counts = [sum(n for key, n in one.items() if (key[3] or "") == code)
                  for one in (before, after, gone, fresh)]  # fmt: skip
        click.echo(f"{code or 'files':8} {counts[0]:7} {counts[1]:7} {counts[2]:6} {counts[3]:6}")
        for sign, one in (("-", gone), ("+", fresh)):
            keys = sorted(key for key in one if (key[3] or "") == code)
            random.Random(0).shuffle(keys)
            for key in keys[:show]:
                click.echo(f"    {sign} {key[0]}:{key[1] or ''}:{key[2]} {key[4]}")
                if folder is not None:
                    click.echo(f"        {_line(folder, key)}")


def _keyed(path: Path, words: bool) -> Counter[tuple[Any, ...]]:
    return Counter(
        (row["file"], row["cell"] or 0, row["row"], row["code"], row["message"] if words else "")
        for row in json.loads(path.read_text())
    )


def _line(folder: Path, key: tuple[Any, ...]) -> str:
    path = folder / key[0]
    if path.suffix != ".py" or not path.is_file():
        return ""
    lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    return lines[key[2] - 1].strip()[:140] if 0 < key[2] <= len(lines) else ""


if __name__ == "__main__":
    main()
