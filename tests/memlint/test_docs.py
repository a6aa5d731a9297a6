"""The page of a rule and the tables of all come from the rules themselves."""

from __future__ import annotations

import pytest

from memlint.cli.main import run
from memlint.rule import docs
from memlint.rule import registry as rules
from memlint.rule.file_rules import FILE_RULES, FileRule
from memlint.rule.page import Example
from tests.memlint.fakes import ALPHA, BETA
from tests.readme import rules_table

RULE = ALPHA._replace(
    written=ALPHA.page._replace(
        why="It costs.\n\n    And more.",
        fix_safety="Nothing changes.",
        examples=(
            Example("alpha\n", "omega\n"),
            Example("alpha(1)\n", title="called", target="trl=0.29"),
        ),
    )
)


def test_page() -> None:
    assert docs.page(RULE) == (
        "# MEM301 alpha-used\n\n"
        "**Alpha is used.** Level: waste: memory or time for nothing.\n\n"
        "## Why it matters\n\nIt costs.\n\nAnd more.\n\n"
        "## Example\n\n```python\nalpha\n```\n\nInstead:\n\n```python\nomega\n```\n\n"
        "## Also: called\n\nFor trl=0.29:\n\n```python\nalpha(1)\n```\n\n"
        "## What the fix does\n\nNothing changes.\n\n"
        "## To keep it\n\nAppend `# memlint: ignore[MEM301]` to the line, with a word why.\n\n"
        "## Sources\n\n- https://example.org/alpha\n"
    )


def test_table() -> None:
    odd = BETA._replace(summary="a | b")
    first, second, *rows = rules_table([RULE, odd]).split("\n")[2:]
    assert first.startswith("| MEM001 | unused-suppression | waste | ")
    assert second.startswith("| MEM002 | broken-file | error | ")
    assert rows == [
        "| MEM301 | alpha-used | waste | alpha is used | yes |",
        "| MEM302 | beta-used | error | a \\| b |  |",
        "",
    ]


@pytest.mark.parametrize("rule_id", rules.known_rules(), ids=lambda each: each.code)
def test_every_rule_has_a_page(rule_id: rules.RuleId, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["rule", rule_id.code.lower()]) == 0
    by_code = capsys.readouterr().out
    assert run(["rule", rule_id.name]) == 0
    assert capsys.readouterr().out == by_code
    assert by_code.startswith(f"# {rule_id.code} {rule_id.name}\n")
    for part in ("## Why it matters", "## Example", "```python", "## Sources"):
        assert part in by_code


@pytest.mark.parametrize("rule", FILE_RULES)
def test_pages_of_rules_about_files(rule: FileRule, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["rule", rule.name]) == 0
    assert run(["rule", rule.code.lower()]) == 0
    out = capsys.readouterr().out
    assert out.count(f"# {rule.code} {rule.name}\n") == 2
    assert out.count("## Why it matters") == 2


def test_list_of_rules(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["rules"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:2] == ["MEM001", "unused-suppression"]
    assert lines[1].split()[:2] == ["MEM002", "broken-file"]
    assert [line.split()[:2] for line in lines[2:]] == [
        [each.code, each.name] for each in rules.known_rules()
    ]


def test_target(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["target", "--target", "trl=0.29"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [
        "trl",
        "transformers",
        "peft",
        "accelerate",
        "torch",
    ]
    assert lines[0].startswith("trl 0.29")
    assert lines[0].endswith("(--target)")
    assert lines[1].endswith(", assumed)")
    assert run(["target", "--target", "jax=1"]) == 2
    assert "expected a target such as trl=0.29" in capsys.readouterr().err
