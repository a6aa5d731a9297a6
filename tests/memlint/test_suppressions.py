"""Suppression comments: what they cover, and MEM001 for those that cover nothing."""

from __future__ import annotations

import pytest

from memlint.rule.findings import Finding, Level
from memlint.run.suppressions import apply
from memlint.source import Source, Span
from memlint.source.reading import read_source
from tests.memlint.fakes import install
from tests.memlint.test_notebook import as_bytes, notebook

ASKED = ("MEM001", "MEM301", "MEM401")


@pytest.fixture(autouse=True)
def three_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)


def finding(source: Source, word: str, code: str = "MEM301") -> Finding:
    start = source.data.index(word.encode())
    span = Span(start, start + len(word.encode()))
    return Finding(span, "found", level=Level.WASTE, code=code, name="x")


def left(text: str, word: str = "alpha", code: str = "MEM301") -> list[str]:
    """The codes left after a finding of ``code`` at ``word``; MEM001 with what it says."""
    source = Source("a.py", text)
    kept = apply(source, [finding(source, word, code)], ASKED)
    return [each.code if each.code == code else each.message for each in kept]


@pytest.mark.parametrize(
    "text",
    [
        "alpha  # memlint: ignore[MEM301]\n",
        "alpha  # memlint: ignore\n",
        "alpha  # memlint: ignore MEM301\n",
        "alpha  # MEMLINT: IGNORE[MEM301]\n",
        "alpha  # memlint: ignore: mem301 because\n",
        "alpha  # memlint: ignore because\n",
        "alpha  #memlint:ignore[mem301]\n",
        "alpha  # memlint: ignore[MEM3]\n",
        "alpha  # memlint: ignore[alpha-used]\n",
        "alpha  # type: ignore  # memlint: ignore[MEM301] kept: fits easily\n",
        "# memlint: ignore[MEM301]\nalpha\n",
        "# memlint: ignore[MEM301]\n\n# why\nalpha\n",
        "x = 'ä'; alpha  # memlint: ignore[MEM301]\n",
        "# memlint: ignore-file\nx\nalpha\n",
        "x\nalpha\n# memlint: ignore-file[MEM301]\n",
        "\x0calpha  # memlint: ignore[MEM301]\n",
        "x = 1\ralpha  # memlint: ignore[MEM301]\r",
    ],
)
def test_covered(text: str) -> None:
    assert left(text) == []


def test_last_line_of_a_finding_counts() -> None:
    text = "f(\n    alpha,\n)  # memlint: ignore[MEM301]\n"
    assert left(text, word="f(\n    alpha,\n)") == []
    assert left(text)[0] == "MEM301"


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("alpha\n", ["MEM301"]),
        (
            "alpha  # memlint: ignore[MEM401]\n",
            ["MEM301", "suppresses MEM401, which is not found here"],
        ),
        (
            "alpha  # memlint: ignore[MEM301, MEM401]\n",
            ["suppresses MEM401, which is not found here"],
        ),
        (
            "x  # memlint: ignore\nalpha\n",
            ["suppresses nothing: no rule finds anything here", "MEM301"],
        ),
        ("alpha  # memlint: ignore[other]\n", ["MEM301", "suppresses other, which is no rule"]),
        ("x = '# memlint: ignore[MEM301]'; alpha\n", ["MEM301"]),
        ("'''\n# memlint: ignore-file\n'''\nalpha\n", ["MEM301"]),
        # A rule that was not asked may well find something.
        ("alpha  # memlint: ignore[MEM301, MEM302]\n", []),
        ("x  # memlint: ignore[MEM401, MEM001]\nalpha  # memlint: ignore\n", []),
    ],
)
def test_not_covered_and_unused(text: str, kept: list[str]) -> None:
    assert left(text) == kept


@pytest.mark.parametrize(
    ("comment", "right"),
    [
        ("# memlint: disable=MEM301", "# memlint: ignore[MEM301]"),
        ("# memlint: disable=MEM301,MEM401  why", "# memlint: ignore[MEM301, MEM401]"),
        ("# memlint: noqa", "# memlint: ignore"),
        ("# memlint: noqa: mem301", "# memlint: ignore[MEM301]"),
        ("# memlint: skip-file", "# memlint: ignore-file"),
        ("# memlint: ignore-line[MEM301]", "# memlint: ignore[MEM301]"),
        ("# memlint: ignore_file", "# memlint: ignore-file"),
        ("# memlint: ignore(MEM301)", "# memlint: ignore[MEM301]"),
        ("# memlint: ignore[MEM301", "# memlint: ignore[MEM301]"),
        ("# memlint: ignroe[MEM301]", "# memlint: ignore[MEM301]"),
        ("# memlint: MEM301", "# memlint: ignore[MEM301]"),
        ("# memlint : disable", "# memlint: ignore"),
        ("# memlint ignore[MEM301]", "# memlint: ignore[MEM301]"),
        ("#memlint ignore-file", "# memlint: ignore-file"),
        ("# noqa: E501, MEM301", "# memlint: ignore[MEM301]"),
    ],
)
def test_misspelled_ones_are_told(comment: str, right: str) -> None:
    said = f"suppresses nothing: `{right}` is what is read"
    assert left(f"x = 'ä'; alpha  {comment}\n") == ["MEM301", said]
    source = Source("a.py", f"x = 'ä'; alpha  {comment}\n")
    (found,) = apply(source, [], ASKED)
    assert source.slice(found.span) == comment
    assert found.fix is not None
    assert found.fix.message == f"write `{right}`"
    assert apply(source, [], ("MEM301",)) == []


@pytest.mark.parametrize(
    "comment",
    [
        "# memlint: says that MEM301 costs 2 GiB",
        "# memlint: MEM301 is what it found here",
        "# memlint: https://example.org/ignore",
        "# memlint finds MEM301 here",
        "# memlint ignores this file",
        "# memlint_runtime: disable it",
        "# noqa: E501",
        "# ruff: noqa",
        "# memlint:",
    ],
)
def test_what_is_said_of_memlint_is_no_suppression(comment: str) -> None:
    assert left(f"alpha  {comment}\n") == ["MEM301"]


@pytest.mark.parametrize("name", ["a.py", "a.yaml"])
@pytest.mark.parametrize(
    "part",
    ["# memlint: ignore[x]", "# memlint: ignore[", " ", "#", "# noqa: ", "MEM301 ", "MEM301,"],
)
def test_a_long_comment_is_no_work(name: str, part: str) -> None:
    source = Source(name, f"# memlint: ignore{part * 100_000}\nalpha  # memlint: ignore\n")
    assert apply(source, [finding(source, "alpha")], ()) == []


def test_a_word_like_a_rule_is_suggested() -> None:
    message = "suppresses MEM3O1, which is no rule; did you mean 'MEM301'?"
    assert left("alpha  # memlint: ignore[MEM3O1]\n") == ["MEM301", message]
    message = "suppresses alpha-use, which is no rule; did you mean 'alpha-used'?"
    assert left("alpha  # memlint: ignore[alpha-use]\n") == ["MEM301", message]


def test_unused_is_silent_unless_asked() -> None:
    source = Source("a.py", "x  # memlint: ignore[MEM301]\n")
    assert apply(source, [], ("MEM301",)) == []
    (found,) = apply(source, [], ASKED)
    assert source.slice(found.span) == "# memlint: ignore[MEM301]"
    assert (found.code, found.name) == ("MEM001", "unused-suppression")
    assert found.fix is not None
    assert found.fix.message == "remove the comment"


def test_in_a_notebook() -> None:
    cells = notebook("!ls\nalpha", "beta  # memlint: ignore[MEM301]")
    source = read_source("n.ipynb", as_bytes(cells))
    assert apply(source, [finding(source, "beta")], ASKED) == []
    assert apply(source, [finding(source, "alpha")], ()) != []


def test_codes_without_brackets_do_not_silence_the_others() -> None:
    assert left("alpha  # memlint: ignore MEM401\n")[0] == "MEM301"


@pytest.mark.parametrize("end", ["", "alpha\n"])
def test_lines_below_many_suppressions_are_read_once(
    end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 300
    source = Source("a.yaml", "alpha: 1\n" + "# memlint: ignore\n" * count + end)
    read: list[int] = []
    line_text = Source.line_text

    def counted(self: Source, line: int) -> str:
        read.append(line)
        return line_text(self, line)

    monkeypatch.setattr(Source, "line_text", counted)
    apply(source, [finding(source, "alpha")], ASKED)
    assert len(read) <= 3 * count
