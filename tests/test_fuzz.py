"""A small seeded share of ``tests.fuzz``, and proof that it sees a lost comment."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from memlint.fix.fixpoint import Fixed
from memlint.rule.findings import Finding, Fix, Level
from memlint.rule.registry import known_rules, load
from memlint.source import Source, Span
from memlint.source.edits import Edit, RemoveItem, RemoveKeyword, RemoveStatement, SetKeyword
from tests import fuzz
from tests.mutations import mutate

_TESTS = Path(__file__).parent
_MUTANTS = 60


def _scripts() -> list[tuple[str, str]]:
    """Scripts of the tests, and as many faulty examples of rules, one of every third rule."""
    own = fuzz.scripts([_TESTS / "scripts", _TESTS / "legacy"])
    rules = load(known.code for known in list(known_rules())[::3])
    return own + [(rule.code, rule.page.examples[0].bad) for rule in rules]


def test_mutants_of_scripts_and_examples_keep_every_promise() -> None:
    failures = []
    made = 0
    for name, text, seed in fuzz.jobs(_scripts(), _MUTANTS, seed=20):
        draw = random.Random(seed)
        mutant = mutate(text, draw)
        if mutant is None or mutant == text:
            continue
        made += 1
        wrong = fuzz.examine(mutant, draw.choice(fuzz.TARGETS), draw.random() < 0.5)
        if wrong:
            failures.append(f"{name} seed {seed}: {wrong}")
    assert made > _MUTANTS * 0.8
    assert not failures, "\n".join(failures)


_TEXT = """\
# about the call
args = SFTConfig(
    # above the option
    packing=True,  # beside the option
    # above another
    bf16=True,  # beside another
)
args.seed = 1  # beside the statement
options = {"a": 1, "b": 2}  # beside the items
more = {
    "c": 3  # beside the value
    # below the value
    ,  # beside its comma
    # above the next
    "d": 4,
}
"""


def _span(part: str) -> Span:
    start = _TEXT.index(part)
    return Span(start, start + len(part))


_CALL = _span(_TEXT[_TEXT.index("SFTConfig(") : _TEXT.index(")") + 1])


@pytest.mark.parametrize(
    ("edit", "going"),
    [
        (SetKeyword(_CALL, "packing", "False"), []),
        (RemoveKeyword(_CALL, "packing"), ["# above the option", "# beside the option"]),
        (RemoveStatement(_span("args.seed = 1")), ["# beside the statement"]),
        (RemoveItem(_span('{"a": 1, "b": 2}'), "b"), ["# beside the items"]),
        (
            RemoveItem(_span(_TEXT[_TEXT.index('{\n    "c"') :].rstrip()), "c"),
            ["# below the value", "# beside its comma", "# beside the value"],
        ),
    ],
)
def test_only_comments_of_what_is_removed_may_go(edit: Edit, going: list[str]) -> None:
    assert sorted(fuzz.comments_that_may_go(_TEXT, [edit]).elements()) == going


def test_a_comment_of_something_else_is_lost() -> None:
    edit = RemoveKeyword(_CALL, "packing")
    finding = Finding(_CALL, "message", Fix("Remove it", (edit,)), Level.WASTE, "MEM000")
    option = _TEXT.index("    # above the option"), _TEXT.index("    bf16=True")
    changed = _TEXT[: option[0]] + _TEXT[option[1] :]
    fixed = Fixed(Source("script.py", changed), (finding,))
    read = [(_TEXT, [finding]), (changed, [])]
    assert fuzz.lost_comments(read, fixed) == ["# above another"]
