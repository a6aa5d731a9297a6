"""The cases of ``tests/cases``: what each rule finds, where it is silent, what its fixes write."""

from __future__ import annotations

import ast

import pytest

from memlint.api import Api, newest, parse_target
from memlint.fix import fix_source
from memlint.rule import Rule
from memlint.rule.findings import Applicability, Finding
from memlint.rule.registry import known_rules, load
from memlint.run.engine import check_source
from memlint.run.prefilter import Prefilter
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


def _found(case: Case, target: str) -> list[Finding]:
    return check_source(Source("script.py", case.text), [RULES[case.code]], _api(target))


@pytest.mark.parametrize(("case", "target"), CASES)
def test_finds_what_the_marks_say(case: Case, target: str) -> None:
    source = Source("script.py", case.text)
    found = [
        (source.location(each.span.start).row, each.level.value) for each in _found(case, target)
    ]
    expected = [(row, level or RULES[case.code].level.value) for row, level in case.expected]
    assert found == expected


@pytest.mark.parametrize("code", sorted(RULES))
def test_every_rule_has_a_trap_that_it_leaves_alone(code: str) -> None:
    assert any(not case.expected for case in cases() if case.code == code)


@pytest.mark.parametrize(("case", "target"), CASES)
def test_reaches_its_rule(case: Case, target: str) -> None:
    asked = Prefilter([RULES[case.code]]).any_asked(case.text.encode())
    assert asked, "no trigger word of the rule is in this script: it can never fail"


@pytest.mark.parametrize(("case", "target"), CASES)
def test_fixes_lead_to_the_fixed_twin(case: Case, target: str) -> None:
    def check(source: Source) -> list[Finding]:
        return check_source(source, [RULES[case.code]], _api(target))

    fixed = fix_source(
        Source("script.py", case.text),
        unsafe=True,
        check=check,
        reread=lambda text: Source("script.py", text),
    )
    assert fixed.error is None
    assert fixed.refused == ()
    assert fixed.source.text == (case.text if case.fixed is None else case.fixed)
    ast.parse(fixed.source.text)
    assert not [
        each
        for each in fixed.left
        if each.fix and each.fix.edits and each.fix.applicability is not Applicability.DISPLAY
    ]


@pytest.mark.parametrize(("case", "target"), CASES)
def test_safe_fixes_leave_unsafe_ones_undone(case: Case, target: str) -> None:
    found = _found(case, target)
    safe = [each for each in found if each.fix and each.fix.applicability is Applicability.SAFE]

    def check(source: Source) -> list[Finding]:
        return check_source(source, [RULES[case.code]], _api(target))

    fixed = fix_source(
        Source("script.py", case.text),
        unsafe=False,
        check=check,
        reread=lambda text: Source("script.py", text),
    )
    assert all(one.fix and one.fix.applicability is Applicability.SAFE for one in fixed.fixed)
    if not safe:
        assert fixed.source.text == case.text


def test_a_case_says_where_and_for_what() -> None:
    text = "# target: trl=0.15\n# about: why\nf(\n    a=1,  # expect: MEM301 hint, MEM301\n)\n"
    case = parse("MEM301", "name", text, None)
    assert case.targets == ("trl=0.15",)
    assert case.expected == ((2, "hint"), (2, ""))
    assert case.text == "f(\n    a=1,\n)\n"
    with pytest.raises(ValueError, match="expects MEM302"):
        parse("MEM301", "name", "x  # expect: MEM302\n", None)
