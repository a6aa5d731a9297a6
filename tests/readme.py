"""Writes the parts of the README and of the documentation that are made from the project itself.

``python -m tests.readme`` puts real output between the marks; a test holds the pages to it.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memlint.rule import Rule

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
PAGES = (README, ROOT / "docs" / "rules.md", ROOT / "docs" / "versions.md")
_OLD = "tests/scripts/sft_2023.py"
_SHORT = "tests/scripts/sft_moved_keyword.py"
_NEWEST = "trl=1.16,transformers=5.23"


def _findings() -> str:
    """What ``memlint check`` says of a script of 2023."""
    command = ["memlint", "check", "--output-format", "concise", "--target", _NEWEST]
    command += ["--gpu", "rtx4090-24gb", _OLD]
    run = subprocess.run(
        [sys.executable, "-m", *command, "--no-color", "--no-cache"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return f"```console\n$ {' '.join(command)}\n{run.stdout.rstrip()}\n```"


def _diff(script: str, *options: str) -> str:
    """What ``memlint fix`` would change, without the file's header."""
    run = subprocess.run(
        [sys.executable, "-m", "memlint", "fix", "--diff", "--no-color", *options, script],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return "\n".join(run.stdout.rstrip("\n").split("\n")[2:])


def parts() -> dict[str, str]:
    """Mark -> what stands between it and its end mark."""
    from memlint.rule.registry import known_rules, load

    old = _diff(_SHORT, "--select", "MEM9", "--target", "trl=0.15,transformers=4.48")
    new = _diff(_SHORT, "--select", "MEM9", "--target", _NEWEST)
    return {
        "findings": _findings(),
        "fixed": f"```diff\n{new}\n```",
        "two targets": (
            f"For `--target trl=0.15,transformers=4.48`:\n\n```diff\n{old}\n```\n\n"
            f"and for `--target trl=1.16,transformers=5.23`:\n\n```diff\n{new}\n```"
        ),
        "rules": rules_table(load([rule.code for rule in known_rules()])).strip(),
    }


def rules_table(rules: Iterable[Rule]) -> str:
    """A Markdown table of ``rules``."""
    from memlint.rule.docs import file_rows, has_fix

    lines = ["| code | name | level | what it sees | fix |", "| --- | --- | --- | --- | --- |"]
    for code, name, level, _, summary in file_rows():
        lines.append(f"| {code} | {name} | {level} | {summary} |  |")
    for rule in rules:
        fix = "yes" if has_fix(rule) else ""
        summary = rule.summary.replace("|", "\\|")
        lines.append(f"| {rule.code} | {rule.name} | {rule.level.value} | {summary} | {fix} |")
    return "\n".join(lines) + "\n"


def rendered(text: str, made: dict[str, str]) -> str:
    """A page with its made parts made anew."""
    for mark, content in made.items():
        start, end = f"<!-- {mark} -->", f"<!-- end of {mark} -->"
        head, found, rest = text.partition(start)
        _, _, tail = rest.partition(end)
        if found:
            text = f"{head}{start}\n{content}\n{end}{tail}"
    return text


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(rendered(page.read_text(), parts()))
