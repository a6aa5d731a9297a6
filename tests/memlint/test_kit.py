"""What rules are written with."""

from __future__ import annotations

from memlint_rules.sequences.padding import share_of_padding

from memlint.api.lookup import Api
from memlint.api.target_versions import newest
from memlint.rule import Finding, Level, Rule, Script, Skip, Span, advise, edits, fix
from memlint.rule.docs import page
from memlint.rule.findings import Applicability
from memlint.rule.page import Page
from memlint.run.engine import check_source
from memlint.source import Source
from memlint.source.edits import RemoveKeyword

EDIT = RemoveKeyword(Span(0, 4), "x")


def test_a_fix_without_edits_is_advice() -> None:
    assert fix("Do it", (EDIT,)).applicability is Applicability.SAFE
    assert fix("Do it", (EDIT,), unsafe=True).applicability is Applicability.UNSAFE
    assert fix("Do it", None) == fix("Do it", ()) == advise("Do it")
    assert advise("Do it").applicability is Applicability.DISPLAY


def test_edits_are_made_together_or_not_at_all() -> None:
    assert edits.together((EDIT,), (EDIT,)) == (EDIT, EDIT)
    assert edits.together((EDIT,), None) is None


def _rule(*skips: Skip) -> Rule:
    def check(script: Script) -> list[Finding]:
        return [Finding(Span(0, 6), "found")]

    return Rule(
        "summary", Level.WASTE, check, (frozenset({"import"}),), skips, Page("Why."),
        code="MEM301", name="name-of-it",
    )  # fmt: skip


def test_a_rule_says_nothing_of_scripts_that_it_skips() -> None:
    source = Source("script.py", "import unsloth\n")
    assert len(check_source(source, [_rule()], Api(newest()))) == 1
    assert check_source(source, [_rule(Skip.UNSLOTH)], Api(newest())) == []
    other = Source("script.py", "import torch\n")
    assert len(check_source(other, [_rule(Skip.UNSLOTH)], Api(newest()))) == 1


def test_the_page_of_a_rule_names_what_it_skips() -> None:
    assert "## Silent where\n\n- the script uses Unsloth" in page(_rule(Skip.UNSLOTH))
    assert "Silent where" not in page(_rule())


def test_the_share_of_padding_takes_no_longer_for_more_rows() -> None:
    assert "about four fifths " in share_of_padding(1000)
    assert "about four fifths " in share_of_padding(1001)
    assert "about nine tenths " in share_of_padding(10**20)


def test_the_share_of_padding_is_a_rough_word() -> None:
    words = [share_of_padding(rows).split(" of the batch")[0] for rows in (2, 4, 8, 32)]
    assert [word.removeprefix("typically about ") for word in words] == [
        "a third",
        "half",
        "two thirds",
        "three quarters",
    ]
    assert "half to two thirds of" in share_of_padding(8, pairs=True)
    assert " to " not in share_of_padding(64, pairs=True)
