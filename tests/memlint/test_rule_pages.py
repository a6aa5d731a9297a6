"""The Markdown page of a rule: read back as it is written, and refused where it is malformed."""

from __future__ import annotations

from pathlib import Path

import pytest

from memlint.rule.page import Example, Page, parse_page, read_page

PAGE = """## Why it matters

It costs
memory.

A second paragraph.

## Example: a title

For trl=0.19:

2 findings.

```python
bad()
# twice

bad()
```

Instead:

```python
good()
```

## Also

```python
worse()
```

## What the fix does

Safe: nothing
changes.

## Sources

- https://example.org/a
- a paper
"""


def test_a_page_is_read() -> None:
    assert parse_page(PAGE) == Page(
        "It costs memory.\n\nA second paragraph.",
        (
            Example("bad()\n# twice\n\nbad()\n", "good()\n", 2, "trl=0.19", "a title"),
            Example("worse()\n"),
        ),
        "Safe: nothing changes.",
        ("https://example.org/a", "a paper"),
    )


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("Why it matters", "Why", "expected a section '## Why it matters'"),
        ("## Sources", "## Source", "expected sections among .*; got 'Source'"),
        ("```python\nworse()\n```", "worse()", "one or two blocks of Python, got 0"),
    ],
)
def test_a_malformed_page_is_refused(tmp_path: Path, old: str, new: str, said: str) -> None:
    path = tmp_path / "mem899_x.md"
    path.write_text(PAGE.replace(old, new), encoding="utf-8")
    with pytest.raises(ValueError, match=said) as refused:
        read_page(path)
    assert str(path) in str(refused.value)


def test_a_missing_page_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"page is expected at .*none\.md"):
        read_page(tmp_path / "none.md")
