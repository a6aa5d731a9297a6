"""Cases of rules as files: ``tests/cases/MEM301/name.py``, and what a fix makes of them.

A case is a script. Its first lines may say for which versions it holds (``# target: trl=0.15``,
one line each; else the newest) and what is to be known (``# about: ...``). A line that ends in
``# expect: MEM301`` has that finding, ``# expect: MEM301 hint`` at that level; a script without
such marks is clean. ``name.fixed.py`` beside it is what all fixes of the rule make of it; a case
with findings and without such a file is changed by no fix. Marks and header are taken off before
the script is read.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

CASES = Path(__file__).parent.parent / "cases"
_MARK = re.compile(r"[ ]{2}# expect: (?P<expected>[^\n#]+)$")
_HEADER = re.compile(r"# (?P<key>target|about): (?P<value>.*)$")


class Case(NamedTuple):
    """One script and what its rule must find in it.

    expected: (row, level or "") of each finding, in order. fixed: the script after all fixes.
    """

    code: str
    name: str
    text: str
    targets: tuple[str, ...]
    expected: tuple[tuple[int, str], ...]
    fixed: str | None
    about: str = ""


def parse(code: str, name: str, text: str, fixed: str | None) -> Case:
    """A case from its file's text; raises ``ValueError`` for a mark of another rule."""
    lines = text.splitlines(keepends=True)
    targets: list[str] = []
    about: list[str] = []
    while lines and (header := _HEADER.match(lines[0])):
        (targets if header["key"] == "target" else about).append(header["value"].strip())
        del lines[0]
    expected: list[tuple[int, str]] = []
    for row, line in enumerate(lines, start=1):
        body = line.rstrip("\r\n")
        mark = _MARK.search(body)
        if mark is None:
            continue
        for each in mark["expected"].split(","):
            found, _, level = each.strip().partition(" ")
            if found != code:
                raise ValueError(f"{code}/{name}: line {row} expects {found}, not {code}")
            expected.append((row, level))
        lines[row - 1] = body[: mark.start()] + line[len(body) :]
    return Case(
        code, name, "".join(lines), tuple(targets) or ("",), tuple(expected), fixed, " ".join(about)
    )


def cases() -> list[Case]:
    """Every case below ``tests/cases``, in the order of codes and names."""
    found = []
    for path in sorted(CASES.glob("MEM*/*.py")):
        if path.name.endswith(".fixed.py"):
            continue
        twin = path.with_name(f"{path.stem}.fixed.py")
        fixed = twin.read_text(encoding="utf-8") if twin.is_file() else None
        text = path.read_text(encoding="utf-8")
        found.append(parse(path.parent.name, path.stem, text, fixed))
    return found


def write(case: Case) -> None:
    """The files of a case, the inverse of ``parse``."""
    lines = case.text.splitlines(keepends=True)
    marks: dict[int, list[str]] = {}
    for row, level in case.expected:
        marks.setdefault(row, []).append(f"{case.code} {level}".strip())
    for row, words in marks.items():
        line = lines[row - 1]
        body = line.rstrip("\r\n")
        lines[row - 1] = f"{body}  # expect: {', '.join(words)}{line[len(body) :]}"
    header = [f"# about: {case.about}\n"] if case.about else []
    header += [f"# target: {target}\n" for target in case.targets if target]
    folder = CASES / case.code
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{case.name}.py").write_text("".join(header + lines), encoding="utf-8")
    if case.fixed is not None:
        (folder / f"{case.name}.fixed.py").write_text(case.fixed, encoding="utf-8")
