"""The versions that a script itself names: its PEP 723 block, its notebook's install commands.

They say more than the project around it: ``uv run`` installs what the block names, and a notebook
runs with what its first cell installed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from memlint.project.manifests import declared_in_strings
from memlint.project.requirements import installs

if TYPE_CHECKING:
    from memlint.source import Source

_OPENING = "# /// script"
_CLOSING = "# ///"


def own_pins(source: Source) -> Mapping[str, str]:
    """Package -> specifier."""
    found: dict[str, str] = {}
    if b"/// script" in source.data:
        found.update(declared_in_strings(_block(source.text)))
    if source.is_notebook and b"install" in source.raw:
        found.update(installs(_shell_lines(source.raw)))  # the last command holds
    return found


def _block(text: str) -> list[str]:
    """The lines of the PEP 723 block, without their comment signs."""
    lines: list[str] = []
    inside = False
    for line in text.splitlines():
        if not inside:
            inside = line.rstrip() == _OPENING
        elif line.rstrip() == _CLOSING:
            return lines
        elif not line.startswith("#"):
            return []
        else:
            lines.append(line[1:])
    return []


def _shell_lines(raw: bytes) -> Iterator[str]:
    """The lines of a notebook's cells that a shell or pip gets."""
    import json

    try:
        cells = json.loads(raw.decode("utf-8-sig", "replace"))["cells"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return
    for cell in cells if isinstance(cells, list) else ():
        if not isinstance(cell, dict) or cell.get("cell_type") != "code":
            continue
        text = cell.get("source", "")
        if isinstance(text, list):
            text = "".join(part for part in text if isinstance(part, str))
        if not isinstance(text, str) or "install" not in text:
            continue
        lines = text.splitlines()
        head = next((line.strip() for line in lines if line.strip()), "")
        if head.startswith(("%%bash", "%%sh", "%%script", "%%!")):
            yield from lines
            continue
        going_on = False
        for line in lines:
            stripped = line.strip()
            if going_on or stripped.startswith(("!", "%pip", "%conda", "%uv", "pip ")):
                yield stripped
                going_on = stripped.endswith("\\")
