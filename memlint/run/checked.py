"""One file checked: what is found in it, and what went wrong as diagnostics."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

from memlint.rule.file_rules import BROKEN_FILE
from memlint.rule.findings import Finding, Level
from memlint.rule.savings import Footprint
from memlint.run.engine import Asked, OnError, examine, unsuppressed
from memlint.run.rendering import first_sentence, render_findings
from memlint.run.results import FileResult, Rendered
from memlint.source import Location, Span
from memlint.source.diagnostics import FileError
from memlint.source.parsing import parse_python, too_much_code
from memlint.source.record import NamedTuple

if TYPE_CHECKING:
    from memlint.api.lookup import Api
    from memlint.engine.project import Project
    from memlint.rule import Rule
    from memlint.run.command_lines import CommandSettings
    from memlint.source import Source

Result = TypeVar("Result")
# Characters up to which a file that does not parse is tried with libcst.
_PROBED = 200_000
# ``except ValueError, error:`` of Python 2. Python 3.14 reads it as two classes without brackets.
_PYTHON_2 = re.compile(r"\s*except\b[^#]{0,1000},\s*[a-z_]\w*\s*:")


class Checked(NamedTuple):
    """What is found in a file, before it is shown. ``source`` of None: it could not be read.

    broken: what of the file itself does not parse; findings of their own, and no ``diagnostics``.
    """

    path: str
    source: Source | None = None
    findings: Sequence[Finding] = ()
    diagnostics: tuple[FileError, ...] = ()
    assumed: tuple[str, ...] = ()
    naming: str = ""
    relied_on: tuple[tuple[str, str], ...] = ()
    footprint: Footprint | None = None
    broken: tuple[FileError, ...] = ()

    def result(
        self, rules: Iterable[Rule] = (), *, show_fixes: bool = False, show_broken: bool = True
    ) -> FileResult:
        """As reports show it; ``rules``, ``show_fixes``: as for ``render_findings``."""
        broken = self.broken if show_broken else ()
        shown = [_broken(self.source, each) for each in broken]
        if self.source is None:
            return FileResult(self.path, tuple(shown), self.diagnostics, relied_on=self.relied_on)
        diagnostics = self.diagnostics
        try:
            shown += render_findings(self.source, self.findings, show_fixes=show_fixes, rules=rules)
        except RecursionError:
            raise
        except Exception as error:
            diagnostics = (*diagnostics, defect(self.path, "showing what was found", error))
        return FileResult(
            self.path,
            tuple(shown),
            diagnostics,
            self.assumed,
            self.naming,
            self.relied_on,
            self.footprint,
        )


def _broken(source: Source | None, error: FileError) -> Rendered:
    """What does not parse, as a finding."""
    code, name, level, _, why, _ = BROKEN_FILE
    row = error.row or 1
    is_there = source is not None and error.cell is None and row <= len(source.line_starts)
    line = source.line_shown(row - 1) if source is not None and is_there else ""
    start = Location(row, error.column or 1, error.cell)
    why = first_sentence(why)
    return Rendered(error.path, code, name, level, error.message, start, start, line, why=why)


def _is_kept(source: Source, error: SyntaxError) -> bool:
    """True if a comment above the place that does not parse suppresses it."""
    row = min(max(error.lineno or 1, 1), len(source.line_starts))
    start = source.line_starts[row - 1]
    code, name, *_ = BROKEN_FILE
    finding = Finding(Span(start, start), "", None, Level.ERROR, code, name)
    return not unsuppressed(source, [finding], (), report_unused=False)


def guarded(work: Callable[[], Result], failed: Callable[[FileError], Result], path: str) -> Result:
    """What ``work`` on the file at ``path`` returns; whatever it raises costs this file alone.

    Deeply nested files are worked on again with a larger stack.
    """
    try:
        try:
            return work()
        except RecursionError:
            return with_deep_stack(work)
    except RecursionError:
        return failed(FileError(path, "is nested too deeply to be read"))
    except MemoryError:
        return failed(FileError(path, "takes more memory than there is; it was not checked"))
    except Exception as error:
        return failed(defect(path, "memlint", error))


# How a source is asked, once it is read: it may name versions itself.
Asking = Callable[["Source", OnError], Asked]


def check_data(
    path: str,
    data: bytes | None,
    asking: Asking,
    project: Project | None = None,
    command_line: CommandSettings | None = None,
    *,
    named: bool = False,
) -> Checked:
    """All that is found in the file at ``path`` (or in ``data``), before it is shown.

    named: the user named this file, so it is parsed even if no rule is selected by its words.
    Bad input is among the diagnostics; raises RecursionError and MemoryError.
    """
    from memlint.source.diagnostics import ReadError
    from memlint.source.reading import read

    try:
        source, left_out = read(path, data)
    except ReadError as error:
        if data is None:
            return Checked(path, diagnostics=(error.diagnostic,))
        return Checked(path, broken=(error.diagnostic,))
    refusal = too_much_code(source.text)
    if refusal:
        return Checked(path, diagnostics=(FileError(path, refusal),))
    faults = Faults(path)
    broken = list(left_out)
    checked = Checked(path, source)
    try:
        if named:
            parse_python(source.text)
        asked = asking(source, faults.of_rule)
        findings, footprint = examine(source, asked, project, command_line)
        checked = checked._replace(findings=findings, footprint=footprint)
        assumed, naming = _assumed(source, findings, asked.api)
        checked = checked._replace(assumed=assumed, naming=naming)
    except SyntaxError as error:
        if not _is_kept(source, error):
            broken.append(_syntax_diagnostic(source, error))
    except (RecursionError, MemoryError):
        raise
    except Exception as error:
        faults.append(defect(path, "the script model", error))
    around = (each for each in (project, command_line) if each is not None)
    relied_on = tuple(pair for each in around for pair in each.digests())
    return checked._replace(diagnostics=tuple(faults), relied_on=relied_on, broken=tuple(broken))


class Faults(list[FileError]):
    """What went wrong in memlint itself while a file was checked."""

    def __init__(self, path: str) -> None:
        self._path = path

    def of_rule(self, rule: Rule, error: Exception) -> None:
        """Note that a rule failed."""
        self.append(defect(self._path, f"rule {rule.code}", error))


def _assumed(source: Source, findings: Sequence[Finding], api: Api) -> tuple[tuple[str, ...], str]:
    """Which versions that matter to ``source`` are assumed, and how they are named."""
    from memlint.run.advice import libraries_of

    libraries = libraries_of(source, findings)
    assumed = api.target.assumed_of(libraries)
    return assumed, api.target.naming(libraries) if assumed else ""


def defect(path: str, what: str, error: Exception) -> FileError:
    import traceback

    frames = traceback.extract_tb(error.__traceback__)
    place = f" at {frames[-1].filename.rpartition('/')[2]}:{frames[-1].lineno}" if frames else ""
    return FileError(
        path,
        f"{what} failed ({type(error).__name__}: {error}{place}); the rest was checked. "
        "This is a defect of memlint: please report it with the script",
    )


# -- what does not parse --------------------------------------------------------------------------


def _syntax_diagnostic(source: Source, error: SyntaxError) -> FileError:
    """Where and why ``source`` does not parse: broken, or newer than this interpreter."""
    message = error.msg or "invalid syntax"
    lines = len(source.line_starts)
    row = min(max(error.lineno or 1, 1), lines)
    column = max(error.offset or 1, 1)
    cell = source.cell_at(source.line_starts[row - 1])
    if cell is not None:
        row -= source.line(cell.span.start)
    if not _PYTHON_2.match(error.text or "") and _is_newer_syntax(source.text):
        import platform

        message = (
            f"uses syntax newer than Python {platform.python_version()}, which runs memlint "
            f"({message}); run memlint with the Python that the script is for (in pre-commit: "
            "`language_version`)"
        )
    else:
        message = f"does not parse: {message}"
    return FileError(source.path, message, row, column, cell.number if cell else None)


def _is_newer_syntax(text: str) -> bool:
    """True if libcst, whose grammar is not the interpreter's, reads what ``ast`` did not.

    Its native parser overflows the stack on nesting some thousands deep, which kills the process:
    what is nested so is broken by any grammar and not tried.
    """
    if len(text) > _PROBED or _deepest(text) > 200 or max(map(len, text.split("\n"))) > 2000:
        return False
    import libcst

    try:
        libcst.parse_module(text)
    except Exception:  # its own errors, the recursion limit, whatever its native parser raises
        return False
    return True


def _deepest(text: str) -> int:
    """The most brackets open at once, strings and comments not told apart."""
    depth = deepest = 0
    for bracket in re.findall(r"[()\[\]{}]", text):
        depth = depth + 1 if bracket in "([{" else max(0, depth - 1)
        deepest = max(deepest, depth)
    return deepest


# -- deeply nested scripts -------------------------------------------------------------------------
# Hundreds of ``elif``, an attribute of a thousand names: Python reads them, and so do we, in a
# thread with a stack of its own size. The main thread's size is the system's to choose.

_STACK_BYTES = 512 << 20  # address space; memory only as far as it is used
_FRAMES = 30_000


def deeply(work: Callable[[], Result]) -> Result:
    """What ``work`` returns; once more with a larger stack where it is nested too deeply."""
    try:
        return work()
    except RecursionError:
        return with_deep_stack(work)


def with_deep_stack(work: Callable[[], Result]) -> Result:
    """What ``work`` returns or raises. Raises RecursionError where even this stack is too small."""
    import sys
    import threading

    results: list[Result] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)

    stack_before, frames_before = threading.stack_size(), sys.getrecursionlimit()
    try:
        threading.stack_size(_STACK_BYTES)
        thread = threading.Thread(target=run, daemon=True)
        sys.setrecursionlimit(max(frames_before, _FRAMES))
        thread.start()
    except (RuntimeError, ValueError, MemoryError):
        sys.setrecursionlimit(frames_before)
        raise RecursionError("no thread with a larger stack could be started") from None
    finally:
        threading.stack_size(stack_before)
    try:
        thread.join()
    finally:
        sys.setrecursionlimit(frames_before)
    if errors:
        raise errors[0]
    return results[0]
