"""Fixes that import the runtime: what they require, and where they are left out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from memlint.api.runtime import INSTALL, NEEDS, is_of_runtime
from memlint.project.targets import named_in
from memlint.rule.findings import Finding, Fix
from memlint.source.edits import AddImport, RenameImport

if TYPE_CHECKING:
    from memlint.source import Source


def runtime_imports(fix: Fix | None) -> tuple[str, ...]:
    """Qualified names of the runtime that the edits of ``fix`` import."""
    found = []
    for edit in fix.edits if fix is not None else ():
        if isinstance(edit, AddImport):
            found.append(f"{edit.module}.{edit.name}" if edit.name else edit.module)
        elif isinstance(edit, RenameImport):
            found.append(f"{edit.new_module}.{edit.new_name}".lstrip("."))
    return tuple(name for name in found if is_of_runtime(name))


def requires(fix: Fix | None) -> str:
    """The command that installs what the fixed script imports; empty where nothing is added."""
    return INSTALL if runtime_imports(fix) else ""


def libraries_of(source: Source, findings: Sequence[Finding]) -> frozenset[str]:
    """The libraries on whose versions it depends what is found in ``source``, and fixed."""
    found = named_in(source)
    if any(runtime_imports(finding.fix) for finding in findings):
        found |= NEEDS.keys()
    return found
