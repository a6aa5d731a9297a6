"""The examples of every rule: they are its tests and its documentation at once.

A faulty script has exactly the faults that its example counts, its fixes lead to the mended script
and to nothing else, and the mended script has no fault left that a fix could mend.
"""

from __future__ import annotations

import ast

import pytest

from memlint.api.lookup import Api
from memlint.api.target_versions import newest, parse_target
from memlint.fix.fixpoint import fix_source
from memlint.rule import Rule
from memlint.rule.findings import Applicability, Finding
from memlint.rule.page import Example
from memlint.rule.registry import known_rules, load
from memlint.run.engine import check_source
from memlint.source import Source
from tests.rules.cases import CASES

RULES = load(rule.code for rule in known_rules())
_APIS: dict[str, Api] = {}


def _api(target: str) -> Api:
    if target not in _APIS:
        _APIS[target] = Api(parse_target(target) if target else newest())
    return _APIS[target]


def _findings(text: str, rule: Rule, target: str = "") -> list[Finding]:
    return check_source(Source("script.py", text), [rule], _api(target))


def _name(rule: Rule, index: int, title: str) -> str:
    return f"{rule.code}-{index}-{title.replace(' ', '_')}"


EXAMPLES = [
    pytest.param(rule, example, id=_name(rule, index, example.title))
    for rule in RULES
    for index, example in enumerate(rule.page.examples)
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_a_rule_explains_itself(rule: Rule) -> None:
    assert rule.summary
    assert not rule.summary.endswith(".")
    assert rule.page.why.endswith(".")
    assert rule.triggers
    assert rule.page.examples
    assert (CASES / rule.code).is_dir(), "traps and long examples are cases"
    fixable = any(example.good is not None for example in rule.page.examples)
    assert rule.page.fix_safety or not fixable


@pytest.mark.parametrize(("rule", "example"), EXAMPLES)
def test_the_faulty_script_has_its_faults(rule: Rule, example: Example) -> None:
    found = _findings(example.bad, rule, example.target)
    assert [finding.code for finding in found] == [rule.code] * example.findings
    end = len(example.bad.encode())
    for finding in found:
        assert 0 <= finding.span.start < finding.span.end <= end
        assert finding.message
        assert not finding.message.endswith(".")
        assert "\n" not in finding.message


@pytest.mark.parametrize(("rule", "example"), EXAMPLES)
def test_the_fixes_lead_to_the_mended_script(rule: Rule, example: Example) -> None:
    def check(source: Source) -> list[Finding]:
        return check_source(source, [rule], _api(example.target))

    def reread(text: str) -> Source:
        return Source("script.py", text)

    fixed = fix_source(reread(example.bad), unsafe=True, check=check, reread=reread)
    assert fixed.error is None
    assert fixed.refused == ()
    assert fixed.source.text == (example.bad if example.good is None else example.good)
    ast.parse(fixed.source.text)
    # What a fix mends stays mended, whatever advice is left.
    assert not [finding for finding in fixed.left if _would_change(finding)]


@pytest.mark.parametrize(("rule", "example"), EXAMPLES)
def test_safe_fixes_alone_leave_unsafe_ones_undone(rule: Rule, example: Example) -> None:
    unsafe = [
        finding
        for finding in _findings(example.bad, rule, example.target)
        if finding.fix and finding.fix.applicability is Applicability.UNSAFE
    ]

    def check(source: Source) -> list[Finding]:
        return check_source(source, [rule], _api(example.target))

    def reread(text: str) -> Source:
        return Source("script.py", text)

    fixed = fix_source(reread(example.bad), unsafe=False, check=check, reread=reread)
    assert all(one.fix and one.fix.applicability is Applicability.SAFE for one in fixed.fixed)
    if len(unsafe) == example.findings:
        assert fixed.source.text == example.bad


def _would_change(finding: Finding) -> bool:
    return (
        finding.fix is not None
        and bool(finding.fix.edits)
        and finding.fix.applicability is not Applicability.DISPLAY
    )
