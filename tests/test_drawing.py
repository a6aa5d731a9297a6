"""The drawing of the packages is today's."""

from __future__ import annotations

from tests.drawing import GUIDE, drawing, reduced, rendered
from tests.structure import Import


def test_the_guide_draws_the_packages_as_they_are() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    assert "```mermaid" in text
    assert rendered(text) == text, "run: python -m tests.drawing"


def test_arrows_that_follow_from_others_are_left_out() -> None:
    assert reduced({"c": {"a", "b"}, "b": {"a"}}) == {"c": {"b"}, "b": {"a"}}


def test_imports_for_types_are_no_arrows() -> None:
    imports = [
        Import("memlint.fix.apply", "memlint.source.spans", 1, lazy=False),
        Import("memlint.source.spans", "memlint.fix.apply", 1, lazy=False, typed=True),
        Import("memlint.source.spans", "memlint.source.text", 1, lazy=False),
    ]
    arrows = [line.strip() for line in drawing(imports).splitlines() if "-->" in line]
    assert arrows == ["fix --> source"]
