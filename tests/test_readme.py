"""The README shows what the project does, not what it once did."""

from __future__ import annotations

from tests.readme import README, rendered


def test_the_made_parts_are_current() -> None:
    text = README.read_text()
    assert rendered(text) == text, "run: python -m tests.readme"


def test_the_two_commands_are_where_ci_finds_them() -> None:
    text = README.read_text()
    assert "<!-- the main job -->\n```bash\n" in text
    assert "<!-- the tests -->\n```bash\n" in text
