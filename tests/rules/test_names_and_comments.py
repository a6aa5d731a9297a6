"""What a script calls its own things, and what its comments say, changes nothing of what is found.

But for guesses: what they silence speaks under another name. The cases where that happens are
listed here, so that a new one is seen.
"""

from __future__ import annotations

from functools import cache
from random import Random

import pytest

from memlint.api.lookup import Api
from memlint.api.target_versions import newest, parse_target
from memlint.rule.registry import load
from memlint.script.model import build_script
from memlint.source import Source
from tests.renaming import renamed, without_comments
from tests.rules.cases import Case, cases

CASES = [case for case in cases() if case.code.startswith("MEM")]
# A comment names a GPU, or that there is none, or what is left out: ``memlint.script.guesses``.
SILENCED_BY_COMMENTS = {
    ("MEM402", "clean_a_comment_says_that_there_is_no_gpu"),
    ("MEM703", "a_comment_says_why_not"),
    ("MEM401", "clean_all_weights_where_bf16_is_missing"),
    ("MEM403", "clean_older_gpus"),
}
# A function is called as pytest calls its tests.
SILENCED_BY_NAMES = {("MEM703", "clean_test_that_asserts")}


@cache
def api(target: str) -> Api:
    return Api(parse_target(target) if target else newest())


def places(case: Case, text: str) -> set[int]:
    """Where the rule of a case finds something."""
    (rule,) = load([case.code])
    if not all(any(word in text for word in words) for words in rule.triggers):
        return set()
    script = build_script(Source("script.py", text), api(case.targets[0]))
    return {finding.span.start for finding in rule.findings(script)}


@pytest.mark.draws(1)
@pytest.mark.parametrize("seed", range(2))
def test_names_say_nothing(seed: int) -> None:
    changed = set()
    for case in CASES:
        new = renamed(case.text, Random(f"{seed} {case.code} {case.name}"))
        if places(case, new) != places(case, case.text):
            changed.add((case.code, case.name))
    assert changed == SILENCED_BY_NAMES


def test_comments_say_nothing() -> None:
    changed = {
        (case.code, case.name)
        for case in CASES
        if places(case, without_comments(case.text)) != places(case, case.text)
    }
    assert changed == SILENCED_BY_COMMENTS


def test_the_helpers_change_what_they_say() -> None:
    text = "import a\ndef f(b):\n    c = b.d  # e\n    return a.g(c, c=1)\n"
    new = renamed(text, Random(1))
    assert new != text
    assert new.count("a.g(") == 1
    assert "c=1" in new
    assert len(new) == len(text)
    assert "# e" in new
    assert "# e" not in without_comments(text)
    assert len(without_comments(text)) == len(text)
