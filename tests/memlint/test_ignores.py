"""Our ``.gitignore`` patterns say what git's and pathspec's say."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pathspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memlint.project.ignores import Patterns, problem

PATTERNS = [
    "*.pyc", "*.py[cod]", "build/", "/dist", "docs/_build/", "**/cache", "data/**", "a/**/b.py",
    "!keep.py", "foo*", "*foo*", "?.py", "[!a].py", "tmp", "x/y", "# comment", "", "trailing ",
    "\\!bang", "\\#hash", "*.egg-info/", "**/x/y", "a/*.py", "!/dist/keep", "lib*/",
]  # fmt: skip
PATHS = [
    "a.py", "b.py", "keep.py", "a.pyc", "x.pyo", "build/a.py", "src/build/a.py", "dist/keep",
    "dist/a.py", "src/dist/a.py", "docs/_build/a.py", "x/docs/_build/a.py", "cache/a.py",
    "a/cache/b.py", "data/a.py", "data/b/c.py", "a/b.py", "a/x/b.py", "a/x/y/b.py", "foo.py",
    "foobar/a.py", "barfoo.py", "tmp/a.py", "b/tmp", "x/y", "z/x/y", "trailing", "!bang", "#hash",
    "p.egg-info/a.py", "a/c.py", "library/a.py",
]  # fmt: skip


def ignored_by_pathspec(lines: list[str], path: str) -> bool:
    return pathspec.GitIgnoreSpec.from_lines(lines).match_file(path)


@given(st.lists(st.sampled_from(PATTERNS), max_size=6), st.sampled_from(PATHS))
def test_agrees_with_pathspec_without_negation(lines: list[str], path: str) -> None:
    # With negation pathspec lets a file out of an ignored folder, which git does not.
    lines = [line for line in lines if not line.startswith("!")]
    assert Patterns(lines).ignores(path) == ignored_by_pathspec(lines, path)


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_agrees_with_git(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    for chunk in range(0, len(PATTERNS), 3):
        lines = PATTERNS[chunk:] + PATTERNS[:chunk]
        (tmp_path / ".gitignore").write_text("\n".join(lines))
        asked = subprocess.run(
            ["git", "-C", str(tmp_path), "check-ignore", "--stdin", "--no-index"],
            input="\n".join(PATHS), capture_output=True, text=True, check=False,
        )  # fmt: skip
        ignored = {line.strip('"').replace("\\\\", "\\") for line in asked.stdout.splitlines()}
        ours = {path for path in PATHS if Patterns(lines).ignores(path)}
        assert ours == ignored


def test_no_pattern_speaks_of_it() -> None:
    assert Patterns(["a"]).match("b", False) is None
    assert Patterns(["*", "!b"]).match("b", False) is False
    assert not Patterns(["# only a comment"])


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b", "a" * 4000),
        ("*" + "?*" * 30 + "b", "a" * 4000),
        ("**/a/" * 30 + "b", "a/" * 1000 + "c"),
        ("x/" + "*a" * 20 + "/" + "*a" * 20 + "b", "x/" + "a" * 2000 + "/" + "a" * 2000),
        ("**/*a*a*a*a*a*a*b/**", "/".join(["a" * 200] * 20)),
    ],
)
def test_matching_takes_time_in_proportion(pattern: str, path: str) -> None:
    # With backtracking each of these outlasts the test's time limit by far.
    assert not Patterns([pattern]).ignores(path)


WILD = st.text(alphabet="ab*?/", min_size=1, max_size=8).filter(
    lambda text: "***" not in text and "//" not in text and text.strip("/") == text
)


@given(WILD, st.lists(st.text(alphabet="ab", min_size=1, max_size=3), min_size=1, max_size=4))
def test_wildcards_mean_what_they_mean_for_pathspec(pattern: str, parts: list[str]) -> None:
    path = "/".join(parts)
    assert Patterns([pattern]).ignores(path) == ignored_by_pathspec([pattern], path)


@pytest.mark.parametrize("pattern", ["[z-a]", "[a", "x[z-a]y/*"])
def test_a_pattern_that_makes_no_sense_matches_nothing(pattern: str) -> None:
    assert not Patterns([pattern]).ignores("a")
    assert problem(pattern) is not None
