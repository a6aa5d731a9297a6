"""A baseline: the findings that a project had when it began, so that only new ones are reported.

The file is JSON for people to read and to merge: for each file, each rule and each line of code
the number of findings there. A line is known by its text, not by its number, so a baseline
survives code that moves; a message is no part of it, since messages name versions and prices.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from memlint.run.jobs import relative_to
from memlint.run.results import FileResult, Rendered
from memlint.source.bounded import read_regular
from memlint.source.diagnostics import reason
from memlint.source.record import NamedTuple

_VERSION = 1
_MAX_BYTES = 50 << 20
_FORM = '{"version": 1, "files": {FILE: {CODE: {LINE: COUNT}}}}'

Key = tuple[str, str, str]


class BaselineError(ValueError):
    """A baseline that cannot be read or written; the message says why and what to do."""


class Compared(NamedTuple):
    """Results without what the baseline has.

    hidden: how many findings the baseline has. gone: how many of its entries, in the files that
    were checked, are not found any more.
    """

    results: list[FileResult]
    hidden: int
    gone: int


def write(path: str, results: Iterable[FileResult]) -> int:
    """Write the findings of ``results`` to ``path`` and return how many there are."""
    counts = Counter(
        key for result in results for key in _keys(result.findings, os.path.dirname(path))
    )
    files: dict[str, dict[str, dict[str, int]]] = {}
    for (file, code, line), count in sorted(counts.items()):
        files.setdefault(file, {}).setdefault(code, {})[line] = count
    text = json.dumps({"version": _VERSION, "files": files}, indent=1, ensure_ascii=False) + "\n"
    from memlint.fix.atomic import put

    try:
        put(path, text.encode("utf-8", "backslashreplace"))
    except OSError as error:
        raise BaselineError(f"{path}: cannot be written: {reason(error)}") from None
    return counts.total()


def compare(path: str, results: Sequence[FileResult]) -> Compared:
    """Return ``results`` without the findings that the baseline at ``path`` has."""
    left = _read(path)
    folder = os.path.dirname(path)
    checked = {relative_to(result.path, folder) for result in results}
    kept, hidden = [], 0
    for result in results:
        new = []
        for finding, key in zip(result.findings, _keys(result.findings, folder), strict=True):
            if left[key] > 0:
                left[key] -= 1
                hidden += 1
            else:
                new.append(finding)
        kept.append(result._replace(findings=tuple(new)))
    gone = sum(count for (file, _, _), count in left.items() if file in checked)
    return Compared(kept, hidden, gone)


def _keys(findings: Iterable[Rendered], folder: str) -> list[Key]:
    return [
        (relative_to(each.path, folder), each.code, " ".join(each.line.split()))
        for each in findings
    ]


def _read(path: str) -> Counter[Key]:
    try:
        document = json.loads(read_regular(path, _MAX_BYTES))
    except OSError as error:
        told = f"{path}: cannot be read: {reason(error)}; `--write-baseline {path}` makes one"
        raise BaselineError(told) from None
    except (ValueError, RecursionError):
        raise BaselineError(f"{path}: is no baseline: expected JSON, {_FORM}") from None
    version = document.get("version") if isinstance(document, dict) else None
    if isinstance(version, int) and version > _VERSION:
        raise BaselineError(f"{path}: was written by a newer memlint (version {version})")
    try:
        return Counter(dict(_entries(document)))
    except (AttributeError, KeyError, TypeError, ValueError):
        raise BaselineError(f"{path}: is no baseline: expected {_FORM}") from None


def _entries(document: Any) -> Iterable[tuple[Key, int]]:
    for file, by_code in document["files"].items():
        for code, by_line in by_code.items():
            for line, count in by_line.items():
                if not isinstance(count, int):
                    raise TypeError(count)
                yield (file, code, line), count
