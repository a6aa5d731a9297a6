"""Names whose size is written down are looked for by what they begin with."""

from __future__ import annotations

import re

import pytest

from memlint.api.knowledge import sizes


@pytest.mark.parametrize("written", [each for each, _ in sizes._WRITTEN])
def test_every_written_name_begins_with_one_of_the_beginnings(written: str) -> None:
    for alternative in written.split("|^"):
        literal = re.sub(r"\((?:[^()]*)\)\??", "", alternative.lstrip("^"))
        optional = re.findall(r"^\^?\(([^()|]*)\)\?", alternative)
        for name in (literal, *(each + literal for each in optional)):
            assert name.startswith(sizes._BEGINNINGS), (written, name)
