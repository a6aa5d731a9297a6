"""The table of options beside ruff's: no option of either is forgotten, and none is made up."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import click
import pytest

from memlint.cli.main import main

PAGE = Path(__file__).parents[2] / "docs" / "beside-ruff.md"
OPTION = re.compile(r"--[a-z][a-z-]+")
# Said once for all: every program has it.
HELP = {"--help"}


def _table() -> list[str]:
    """Return the rows of the page's first table, its options."""
    text = PAGE.read_text(encoding="utf-8")
    return [line for line in text.partition("## What other")[0].split("\n") if line[:2] == "| "]


def columns() -> list[tuple[set[str], set[str]]]:
    """Return the options of ruff and of memlint in each row."""
    rows = [line.split("|")[1:3] for line in _table()]
    return [(set(OPTION.findall(ruff)), set(OPTION.findall(ours))) for ruff, ours in rows]


def test_every_option_of_check_and_fix_stands_in_it() -> None:
    commands = (main.commands["check"], main.commands["fix"])
    options = [each for command in commands for each in command.params]
    ours = {
        name
        for each in options
        if isinstance(each, click.Option)
        for name in each.opts
        if name.startswith("--")
    }
    named = set().union(*(row for _, row in columns()))
    assert named - {"--fix"} == ours - HELP, "`check --fix` is `fix`"


def test_every_option_of_ruff_stands_in_it_once() -> None:
    ruff = shutil.which("ruff")
    if ruff is None:
        pytest.skip("ruff is not installed")
    text = subprocess.run([ruff, "check", "--help"], capture_output=True, text=True, check=True)
    theirs = set(re.findall(r"^ +(?:-\w, )?(--[a-z-]+)", text.stdout, re.MULTILINE))
    named = [name for row, _ in columns() for name in row]
    assert sorted(named) == sorted(theirs - HELP)


def test_every_row_says_how_they_compare() -> None:
    assert all(line.split("|")[3].strip() for line in _table())
