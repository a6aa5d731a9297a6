"""Checks texts that are not saved, as an editor holds them. Knows nothing of a protocol."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping, Sequence
from typing import Any

from memlint.adopt.ignoring import with_ignores
from memlint.project.config import ConfigError, Settings, nearest, override
from memlint.project.discover import Found, is_excluded
from memlint.project.targets import Targets
from memlint.recipes.files import is_recipe_file
from memlint.recipes.files import may_hold_recipe as may_hold
from memlint.rule.registry import Choice
from memlint.run.jobs import Job, plan
from memlint.run.results import FileResult, Rendered
from memlint.run.session import Session
from memlint.source.diagnostics import ReadError
from memlint.source.reading import encode, read_source
from memlint.source.record import NamedTuple

# The editor's settings that take the place of the configuration's.
OPTIONS = ("select", "ignore", "target", "gpu", "assume", "runtime", "prices", "unsafe-fixes")


class LineEdit(NamedTuple):
    """Replace the lines from ``first`` to before ``last`` (0-based) by ``text``."""

    first: int
    last: int
    text: str


class Checker:
    """One session for all documents. Not for several threads at once.

    options: the editor's settings, by their names in the configuration.
    """

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        self._options = dict(options or {})
        self.reload()

    def reload(self) -> None:
        """Forget what was read of the project's files: one of them changed."""
        self._session = Session(show_fixes=True)
        self._settings: dict[str, Settings | None] = {}
        self.targets = Targets()

    def configure(self, options: Mapping[str, Any]) -> None:
        """Take the editor's settings anew."""
        self._options = dict(options)
        self.reload()

    def settings(self, path: str) -> Settings:
        """Return the settings of the file at ``path``. Raises ``ConfigError``."""
        found = nearest(os.path.dirname(path), self._settings)
        given = {name: self._options[name] for name in OPTIONS if self._options.get(name)}
        return override(
            found,
            target=given.get("target"),
            gpu=given.get("gpu"),
            assume=tuple(given.get("assume", ())),
            runtime=self._options.get("runtime"),
            prices=self._options.get("prices"),
            unsafe_fixes=self._options.get("unsafe-fixes"),
        )

    def check(self, path: str, data: bytes) -> FileResult:
        """Return what is found in ``data``, the text of the file at ``path`` (absolute).

        Raises ``ConfigError``, or ``ValueError`` for settings that cannot be understood.
        """
        job = self._job(path, data)
        return FileResult(path) if job is None else self._session.check(job, data)

    def fix(self, path: str, data: bytes, unsafe: bool = False) -> bytes | None:
        """Return the text once everything safe is fixed; None where nothing is."""
        job = self._job(path, data)
        if job is None:
            return None
        return self._session.fix(job._replace(unsafe_fixes=unsafe), data).after

    def _job(self, path: str, data: bytes) -> Job | None:
        """Return what is asked of the file; None where it is excluded or none of ours."""
        settings = self.settings(path)
        if is_excluded(path, settings):
            return None
        if is_recipe_file(path) and not may_hold(path, data):
            return None
        choice = Choice(
            tuple(self._options.get("select") or ()) or None,
            tuple(self._options.get("ignore") or ()),
        )
        return plan([Found(path, settings, absolute=path)], choice)[0]


def ignored(path: str, data: bytes, finding: Rendered) -> bytes | None:
    """Return the text with a suppression of ``finding``; None where none can be written."""
    try:
        source = read_source(path, data)
        text = with_ignores(source, [finding]).text
        return None if text is None else encode(source, text)
    except (ReadError, ValueError):
        return None


def line_edits(before: str, after: str) -> list[LineEdit]:
    """Return what makes ``after`` of ``before``, whole lines alone, from top to bottom."""
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    return [
        LineEdit(first, last, "".join(new[start:end]))
        for kind, first, last, start, end in matcher.get_opcodes()
        if kind != "equal"
    ]


def notebook(cells: Sequence[tuple[str, str]]) -> bytes:
    """Write cells, each its kind (``code`` or ``markdown``) and text, as a notebook's file."""
    import json

    document = {
        "cells": [
            {
                "cell_type": kind,
                "metadata": {},
                "source": text.splitlines(keepends=True),
                **({"outputs": [], "execution_count": None} if kind == "code" else {}),
            }
            for kind, text in cells
        ],
        "metadata": {},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(document, ensure_ascii=False).encode("utf-8", "surrogatepass")


def cells_of(data: bytes) -> list[str]:
    """Return the texts of a notebook's cells."""
    import json

    return ["".join(cell["source"]) for cell in json.loads(data)["cells"]]


__all__ = ["Checker", "ConfigError", "LineEdit", "cells_of", "ignored", "line_edits", "notebook"]
