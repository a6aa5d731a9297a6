"""Which rules a user's codes, prefixes and names choose."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from memlint.rule import outlines
from memlint.rule import registry as rules
from memlint.rule.registry import RuleId

IDS = (
    RuleId("MEM301", "unchecked-activations", ""),
    RuleId("MEM302", "cache-in-training", ""),
    RuleId("MEM401", "fp32-weights", ""),
)
ALL = {"MEM001", "MEM002", "MEM301", "MEM302", "MEM401"}


@pytest.fixture(autouse=True)
def three_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "known_rules", lambda: IDS)


@pytest.mark.parametrize(
    ("select", "ignore", "extend", "codes"),
    [
        (None, (), (), ALL),
        (("ALL",), ("ALL",), (), set()),
        (("MEM3",), (), (), {"MEM301", "MEM302"}),
        (("MEM3",), ("MEM302",), (), {"MEM301"}),
        (("MEM301",), ("MEM3",), (), {"MEM301"}),  # the longer one decides
        (("mem301",), (), (), {"MEM301"}),
        (("fp32-weights",), (), (), {"MEM401"}),
        (("MEM401",), ("fp32-weights",), (), set()),
        (("MEM4",), (), ("MEM302",), {"MEM302", "MEM401"}),
        (None, ("MEM",), (), set()),
        (None, ("MEM",), ("MEM30",), {"MEM301", "MEM302"}),
        ((), (), (), set()),
    ],
)
def test_selection(
    select: tuple[str, ...] | None,
    ignore: tuple[str, ...],
    extend: tuple[str, ...],
    codes: set[str],
) -> None:
    assert rules.selected(select, ignore, extend) == codes


def test_command_line_narrows_the_configuration() -> None:
    configured = rules.selected(("MEM3",))
    assert rules.narrowed(configured, None) == configured
    assert rules.narrowed(configured, ("MEM4",)) == {"MEM401"}
    assert rules.narrowed(configured, None, ("MEM301",)) == {"MEM302"}
    assert rules.narrowed(configured, None, (), ("MEM4",)) == {"MEM301", "MEM302", "MEM401"}
    # What the command line itself names more precisely outlives what it ignores.
    assert rules.narrowed(configured, None, ("MEM3",), ("MEM301",)) == {"MEM301"}


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("MEM303", "MEM30"),
        ("MEM4O1", "MEM401"),
        ("fp23-weights", "fp32-weights"),
        ("XYZ", ""),
        ("ME", ""),
        ("", ""),
    ],
)
def test_unknown_specifiers(word: str, hint: str) -> None:
    with pytest.raises(ValueError, match=f"no rule is called '{word}'.*{hint}"):
        rules.check_specifiers([word])


def test_find() -> None:
    assert rules.find("mem401") == rules.find("FP32-weights") == IDS[2]
    with pytest.raises(ValueError, match="did you mean 'MEM401'"):
        rules.find("MEM400")


def test_shipped_rules_are_what_their_files_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    ids = rules.known_rules()
    assert len({each.code for each in ids}) == len(ids) > 0
    assert [each.code for each in ids] == sorted(each.code for each in ids)
    for rule in rules.load((each.code for each in ids), at_once=True):
        assert rule.triggers, f"{rule.code} would be asked about every file"
        assert all(word.isascii() for words in rule.triggers for word in words)
        assert all(rule.triggers), f"{rule.code} would never be asked"


def test_outlines_say_what_the_rules_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    every = rules.load((each.code for each in rules.known_rules()), at_once=True)
    written = Path(outlines.outline_file()).read_text()
    assert written == outlines.text(every), "run `python -m memlint.rule.outlines`"


def test_a_rule_is_imported_when_it_is_asked_something() -> None:
    program = """
import sys
from memlint.rule import registry
before = {name for name in sys.modules if name.startswith("memlint_rules.")}
rule, = registry.load({"MEM302"})
assert rule.code == "MEM302" and rule.triggers
module = "memlint_rules.activations.mem302_cache_in_training"
assert module not in sys.modules
assert rule.summary
assert module in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)
