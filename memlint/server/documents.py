"""Checks texts that are not saved, as an editor holds them. Knows nothing of a protocol."""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from memlint.adopt.ignoring import with_ignores
from memlint.project.config import Settings, nearest, override
from memlint.project.discover import Found, is_excluded
from memlint.project.targets import Targets
from memlint.recipes.files import is_recipe_file, may_hold_recipe
from memlint.rule.registry import Choice
from memlint.run.jobs import Job, plan
from memlint.run.results import FileResult, Rendered
from memlint.run.session import Session
from memlint.source.diagnostics import ReadError
from memlint.source.reading import encode, read_source


class Checker:
    """One session for all documents. Not for several threads at once.

    options: the editor's settings, by their names in the configuration: ``select``, ``ignore``,
    ``target``, ``gpu``, ``assume``, ``runtime`` and ``prices``.
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
        options = self._options
        return override(
            nearest(os.path.dirname(path), self._settings),
            target=options.get("target") or None,
            gpu=options.get("gpu") or None,
            assume=tuple(options.get("assume") or ()),
            runtime=options.get("runtime"),
            prices=options.get("prices"),
            unsafe_fixes=False,
        )

    def check(self, path: str, data: bytes) -> FileResult:
        """Return what is found in ``data``, the text of the file at ``path`` (absolute).

        Raises ``ConfigError``, or ``ValueError`` for settings that cannot be understood.
        """
        job = self._job(path, data)
        return FileResult(path) if job is None else self._session.check(job, data)

    def fix(self, path: str, data: bytes) -> bytes | None:
        """Return the text once everything safe is fixed; None where nothing is."""
        job = self._job(path, data)
        return None if job is None else self._session.fix(job, data).after

    def _job(self, path: str, data: bytes) -> Job | None:
        """Return what is asked of the file; None where it is excluded or none of ours."""
        settings = self.settings(path)
        if is_excluded(path, settings):
            return None
        if is_recipe_file(path) and not may_hold_recipe(path, data):
            return None
        select, ignore = (tuple(self._options.get(name) or ()) for name in ("select", "ignore"))
        choice = Choice(select or None, ignore)
        return plan([Found(path, settings, absolute=path)], choice)[0]


def ignored(path: str, data: bytes, finding: Rendered) -> bytes | None:
    """Return the text with a suppression of ``finding``; None where none can be written."""
    try:
        source = read_source(path, data)
        text = with_ignores(source, [finding]).text
        return None if text is None else encode(source, text)
    except (ReadError, ValueError):
        return None


def line_edits(before: str, after: str) -> list[tuple[int, int, str]]:
    """Return what makes ``after`` of ``before``, from top to bottom: what stands from one line to
    before another (0-based) becomes a text."""
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    return [
        (first, last, "".join(new[start:end]))
        for kind, first, last, start, end in matcher.get_opcodes()
        if kind != "equal"
    ]


def notebook(cells: Sequence[tuple[str, str]]) -> bytes:
    """Write cells, each its kind (``code`` or ``markdown``) and text, as a notebook's file."""
    document = {"cells": [{"cell_type": kind, "source": text} for kind, text in cells]}
    return json.dumps(document, ensure_ascii=False).encode("utf-8", "surrogatepass")


def cells_of(data: bytes) -> list[str]:
    """Return the texts of a notebook's cells."""
    return ["".join(cell["source"]) for cell in json.loads(data)["cells"]]
