"""The documentation site: every page is there, and links lead to pages."""

from __future__ import annotations

import posixpath
import re

from memlint.rule.registry import known_rules
from tools.site import _NAV, pages


def test_links_between_pages_hold() -> None:
    texts = dict(pages())
    for name, text in texts.items():
        for link in re.findall(r"\]\(([^)#\s]+\.md)", text):
            if not link.startswith("https://"):
                target = posixpath.normpath(posixpath.join(posixpath.dirname(name), link))
                assert target in texts, f"{name} links to {link}"
    assert all(f"rules/{rule.code}.md" in texts for rule in known_rules())
    assert all(page in texts for page in re.findall(r": (\S+\.md)", _NAV))


def test_what_changed_is_said_release_by_release() -> None:
    changed = dict(pages())["changes-trl.md"]
    newest_first = re.findall(r"(?m)^## trl (\d+)\.(\d+)", changed)
    numbers = [(int(major), int(minor)) for major, minor in newest_first]
    assert numbers == sorted(numbers, reverse=True)
    (row,) = re.findall(r"(?m)^\| `SFTConfig` \| [^|]*`max_seq_length`[^|]* \|.*$", changed)
    assert row.startswith("| `SFTConfig` |")


def test_the_front_page_counts_the_rules() -> None:
    (count,) = re.findall(r"\| (\d+), from padded batches", dict(pages())["index.md"])
    assert int(count) == len(known_rules())
