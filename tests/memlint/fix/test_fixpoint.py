"""Passes: to the end, in the right order, never round in circles."""

from __future__ import annotations

import ast
from collections.abc import Callable

from memlint.fix.fixpoint import PASSES, Fixed, fix_source
from memlint.rule.findings import Applicability, Finding, Fix, Level
from memlint.source import Cell, Source, Span
from memlint.source.edits import Edit, RemoveKeyword, RenameKeyword, SetKeyword

from .places import all_of

Rule = Callable[[ast.Call, Span], Edit | None]


def finding(span: Span, *edits: Edit, applicability: Applicability = Applicability.SAFE) -> Finding:
    fix = Fix("mend it", edits, applicability)
    return Finding(span, "a fault", fix, Level.WASTE, "MEM000", "fault")


def checker(
    *rules: Rule, applicability: Applicability = Applicability.SAFE
) -> Callable[[Source], list[Finding]]:
    """A check that asks ``rules`` for an edit of every call."""

    def check(source: Source) -> list[Finding]:
        return [
            finding(span, edit, applicability=applicability)
            for node, span in all_of(source.text, ast.Call)
            for rule in rules
            if (edit := rule(node, span)) is not None
        ]

    return check


def run(text: str, check: Callable[[Source], list[Finding]], *, unsafe: bool = False) -> Fixed:
    return fix_source(
        Source("x.py", text),
        unsafe=unsafe,
        check=check,
        reread=lambda new: Source("x.py", new),
    )


def has(node: ast.Call, name: str) -> bool:
    return any(keyword.arg == name for keyword in node.keywords)


def rename(old: str, new: str) -> Rule:
    return lambda node, span: RenameKeyword(span, old, new) if has(node, old) else None


def add(name: str) -> Rule:
    return lambda node, span: None if has(node, name) else SetKeyword(span, name, "1")


def test_what_one_pass_brings_the_next_one_mends() -> None:
    result = run("f(a=g())\n", checker(rename("a", "b"), rename("b", "c"), add("k")))
    assert result.source.text == "f(c=g(k=1), k=1)\n"
    assert (result.left, result.refused, result.error) == ((), (), None)
    assert result.passes == 2
    assert len(result.fixed) == 4


def test_fixes_that_overlap_get_their_turn() -> None:
    def drop_inner(node: ast.Call, span: Span) -> Edit | None:
        return RemoveKeyword(span, "x") if has(node, "x") else None

    result = run("f(a=g(x=1, y=h(x=2)), x=f(x=3))\n", checker(drop_inner))
    assert result.source.text == "f(a=g(y=h()))\n"


def test_nothing_to_do_is_the_same_source() -> None:
    source = Source("x.py", "f(k=1)\n")
    result = fix_source(
        source, unsafe=False, check=checker(add("k")), reread=lambda new: Source("x.py", new)
    )
    assert result.source is source
    assert (result.fixed, result.passes) == ((), 0)


def test_unsafe_and_display_fixes_wait_to_be_asked_for() -> None:
    unsafe = checker(add("k"), applicability=Applicability.UNSAFE)
    assert run("f()\n", unsafe).source.text == "f()\n"
    assert len(run("f()\n", unsafe).left) == 1
    assert run("f()\n", unsafe, unsafe=True).source.text == "f(k=1)\n"
    display = checker(add("k"), applicability=Applicability.DISPLAY)
    assert run("f()\n", display, unsafe=True).source.text == "f()\n"


def test_rules_that_undo_each_other_leave_the_file_alone() -> None:
    result = run("f(a=1)\n", checker(rename("a", "b"), rename("b", "a")))
    assert result.source.text == "f(a=1)\n"
    assert result.fixed == ()
    assert result.error is not None
    assert "undo each other" in result.error


def test_a_rule_without_an_end_is_stopped_after_ten_passes() -> None:
    calls = 0

    def longer(node: ast.Call, span: Span) -> Edit:
        nonlocal calls
        calls += 1
        return SetKeyword(span, f"k{len(node.keywords)}", "1")

    result = run("f()\n", checker(longer))
    assert result.source.text == "f()\n"
    assert result.error is not None
    assert "do not come to an end" in result.error
    assert calls == PASSES + 1


def test_ten_passes_are_enough_for_ten_steps() -> None:
    def longer(node: ast.Call, span: Span) -> Edit | None:
        count = len(node.keywords)
        return SetKeyword(span, f"k{count}", "1") if count < PASSES else None

    result = run("f()\n", checker(longer))
    assert result.error is None
    assert result.passes == PASSES
    assert result.source.text.count("=1") == PASSES


def test_a_fix_that_cannot_be_made_is_reported_once_with_its_reason() -> None:
    def impossible(node: ast.Call, span: Span) -> Edit:
        return RemoveKeyword(span, "missing")

    result = run("f(a=1)\n", checker(impossible, rename("a", "b")))
    assert result.source.text == "f(b=1)\n"
    assert [reason for _, reason in result.refused] == ["the call has no keyword 'missing'"]
    assert len(result.left) == 1


def test_a_fix_that_changes_nothing_does_not_run_for_ever() -> None:
    def same(node: ast.Call, span: Span) -> Edit:
        return SetKeyword(span, "a", "1")

    result = run("f(a=1)\n", checker(same))
    assert result.error is None
    assert result.source.text == "f(a=1)\n"
    assert [reason for _, reason in result.refused] == ["its fix changes nothing"]


def test_a_notebook_keeps_its_cells() -> None:
    def reread(text: str) -> Source:
        return Source("x.ipynb", text, cells=())

    source = Source("x.ipynb", "f()\n", cells=(Cell(1, Span(0, 4)),))
    result = fix_source(source, unsafe=False, check=checker(add("k")), reread=reread)
    assert result.source is source
    assert result.error is not None
    assert "cells" in result.error


def test_a_file_that_cannot_be_rewritten_says_why() -> None:
    text = "x" + ".f(1)" * 400 + "\ng(a)\n"

    def check(source: Source) -> list[Finding]:
        place = Span(len(text) - 5, len(text) - 1)
        return [finding(place, SetKeyword(place, "k", "1"))]

    result = run(text, check)
    assert result.source.text == text
    assert "nested too deeply" in result.refused[0][1]
