"""The README shows what the project does, not what it once did."""

from __future__ import annotations

import re
from pathlib import Path

from tests.readme import PAGES, README, ROOT, parts, rendered


def test_the_made_parts_are_current() -> None:
    made = parts()
    for page in PAGES:
        text = page.read_text()
        assert rendered(text, made) == text, f"{page.name}: run python -m tests.readme"
    texts = "".join(page.read_text() for page in PAGES)
    assert all(f"<!-- end of {mark} -->" in texts for mark in made)


def test_the_front_page_is_short() -> None:
    assert len(README.read_text().splitlines()) <= 150


def test_every_link_leads_somewhere() -> None:
    pages = [README, ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
    for page in pages:
        for link in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text()):
            if not link.startswith(("https://", "mailto:")):
                assert Path(page.parent, link).exists(), f"{page.name} links to {link}"


def test_the_two_commands_are_where_ci_finds_them() -> None:
    text = README.read_text()
    assert "<!-- the main job -->\n```bash\n" in text
    assert "<!-- the tests -->\n```bash\n" in text
