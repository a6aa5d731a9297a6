"""Writes the parts of the README that are made from the project itself.

``python -m tests.readme`` puts real output between the marks; a test holds the README to it.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
_OLD = "tests/scripts/sft_2023.py"
_SHORT = "tests/scripts/sft_moved_keyword.py"
_NEWEST = "trl=1.16,transformers=5.23"


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
    from memlint.rule.docs import rules_table
    from memlint.rule.registry import known_rules, load

    before_after = _diff(_OLD, "--unsafe-fixes", "--target", _NEWEST)
    old = _diff(_SHORT, "--select", "MEM9", "--target", "trl=0.15,transformers=4.48")
    new = _diff(_SHORT, "--select", "MEM9", "--target", _NEWEST)
    return {
        "before and after": f"```diff\n{before_after}\n```",
        "two targets": (
            f"For `--target trl=0.15,transformers=4.48`:\n\n```diff\n{old}\n```\n\n"
            f"and for `--target trl=1.16,transformers=5.23`:\n\n```diff\n{new}\n```"
        ),
        "rules": rules_table(load([rule.code for rule in known_rules()])).strip(),
    }


def rendered(text: str) -> str:
    """The README with its made parts made anew."""
    for mark, content in parts().items():
        start, end = f"<!-- {mark} -->", f"<!-- end of {mark} -->"
        head, _, rest = text.partition(start)
        _, _, tail = rest.partition(end)
        text = f"{head}{start}\n{content}\n{end}{tail}"
    return text


if __name__ == "__main__":
    README.write_text(rendered(README.read_text()))
