"""The cases of ``tests/cases``: what each rule finds, where it is silent, what its fixes write."""

from __future__ import annotations

import ast

import pytest

from memlint.api.lookup import Api
from memlint.api.target_versions import newest, parse_target
from memlint.fix.fixpoint import Fixed, fix_source
from memlint.rule import Rule
from memlint.rule.findings import Applicability, Finding
from memlint.rule.registry import known_rules, load
from memlint.run.engine import Prefilter, check_source
from memlint.source import Source
from tests.rules.cases import Case, cases, parse

RULES: dict[str, Rule] = {rule.code: rule for rule in load(each.code for each in known_rules())}
_APIS: dict[str, Api] = {}
CASES = [
    pytest.param(case, target, id=f"{case.code}-{case.name}{'@' + target if target else ''}")
    for case in cases()
    for target in case.targets
]


def _api(target: str) -> Api:
    if target not in _APIS:
        _APIS[target] = Api(parse_target(target) if target else newest())
    return _APIS[target]


@pytest.mark.parametrize(("case", "target"), CASES)
def test_finds_what_the_marks_say_and_fixes_it(case: Case, target: str) -> None:
    """Check and fix a case. A text is checked once, whichever assertion asks about it."""
    checked: dict[str, list[Finding]] = {}

    def check(source: Source) -> list[Finding]:
        if source.text not in checked:
            checked[source.text] = check_source(source, [RULES[case.code]], _api(target))
        return checked[source.text]

    def fix(*, unsafe: bool) -> Fixed:
        return fix_source(
            source, unsafe=unsafe, check=check, reread=lambda text: Source("script.py", text)
        )

    source = Source("script.py", case.text)
    findings = check(source)
    assert [
        (source.location(finding.span.start).row, finding.level.value) for finding in findings
    ] == [(row, level or RULES[case.code].level.value) for row, level in case.expected]
    asked = list(Prefilter([RULES[case.code]]).asked(case.text.encode()))
    assert asked, "no trigger word of the rule is in this script: it can never fail"
    _leads_to_the_twin(fix(unsafe=True), case)
    _leaves_unsafe_fixes_undone(fix(unsafe=False), case, findings)


def _leads_to_the_twin(fixed: Fixed, case: Case) -> None:
    """Assert that all fixes write the case's twin, or nothing where it has none."""
    assert fixed.error is None
    assert fixed.refused == ()
    assert fixed.source.text == (case.text if case.fixed is None else case.fixed)
    ast.parse(fixed.source.text)
    assert not [
        finding
        for finding in fixed.left
        if finding.fix
        and finding.fix.edits
        and finding.fix.applicability is not Applicability.DISPLAY
    ]


def _leaves_unsafe_fixes_undone(fixed: Fixed, case: Case, findings: list[Finding]) -> None:
    """Assert that safe fixes alone are applied where no others are wanted."""
    assert all(_is_safe(finding) for finding in fixed.fixed)
    if not any(map(_is_safe, findings)):
        assert fixed.source.text == case.text


def _is_safe(finding: Finding) -> bool:
    return finding.fix is not None and finding.fix.applicability is Applicability.SAFE


@pytest.mark.parametrize("code", sorted(RULES))
def test_every_rule_has_a_trap_that_it_leaves_alone(code: str) -> None:
    assert any(not case.expected for case in cases() if case.code == code)


def test_a_case_says_where_and_for_what() -> None:
    text = "# target: trl=0.15\n# about: why\nf(\n    a=1,  # expect: MEM301 hint, MEM301\n)\n"
    case = parse("MEM301", "name", text, None)
    assert case.targets == ("trl=0.15",)
    assert case.expected == ((2, "hint"), (2, ""))
    assert case.text == "f(\n    a=1,\n)\n"
    with pytest.raises(ValueError, match="expects MEM302"):
        parse("MEM301", "name", "x  # expect: MEM302\n", None)
