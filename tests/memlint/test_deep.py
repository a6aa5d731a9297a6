"""Deep and large scripts: read as far as Python reads them, and one error beyond."""

from __future__ import annotations

import sys

import pytest

from memlint.run.jobs import Job
from memlint.run.session import Session

_DEEP = {
    "elif": "if a == 0:\n    b = 0\n" + "elif a == 1:\n    b = 1\n" * 500,
    "attributes": "x = a" + ".b" * 1000 + "\n",
    "operators": "x = a" + " + b" * 1000 + "\n",
}


@pytest.mark.parametrize("kind", _DEEP)
def test_what_python_reads_is_read_however_deep(kind: str) -> None:
    text = (
        "from transformers import TrainingArguments\n"
        + _DEEP[kind]
        + "args = TrainingArguments('out', evaluation_strategy='no')\n"
    )
    job = Job("a.py", frozenset({"MEM901"}), "trl=1.16,transformers=5.23", unsafe_fixes=True)
    result = Session(show_fixes=True).check(job, text.encode())
    assert [finding.code for finding in result.findings] == ["MEM901"]
    assert result.diagnostics == ()


def test_what_is_too_deep_is_one_error_and_limits_are_restored() -> None:
    before = sys.getrecursionlimit()
    job = Job("a.py", frozenset({"MEM901"}), "trl=1.16,transformers=5.23", named=True)
    result = Session().check(job, ("import transformers\nx = " + "-" * 50_000 + "1\n").encode())
    assert result.findings == ()
    assert len(result.diagnostics) == 1
    assert sys.getrecursionlimit() == before


def test_generated_code_is_too_much() -> None:
    job = Job("a.py", frozenset({"MEM901"}), "trl=1.16,transformers=5.23", named=True)
    result = Session().check(job, b"x = 1  # transformers\n" * 150_000)
    assert "holds 3 MiB of code, more than the 2 MiB" in result.diagnostics[0].message
