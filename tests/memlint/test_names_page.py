"""docs/rule-names.md is what the code says."""

from __future__ import annotations

from pathlib import Path

from memlint.rule.names import offered, page

PAGE = Path(__file__).parents[2] / "docs" / "rule-names.md"


def test_the_page_is_what_the_code_says() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), (
        "run python -m memlint.rule.names > docs/rule-names.md"
    )


def test_every_name_is_on_it() -> None:
    text = page()
    for name in offered():
        assert any(f"{start}`{name}{end}" in text for start in ("- ", "## ") for end in "`("), name
