"""Why a script does not parse: it is broken, or newer than the Python that runs memlint."""

from __future__ import annotations

import re
import warnings
from typing import TYPE_CHECKING

from memlint.source.diagnostics import FileError
from memlint.source.parsing import parse_python

if TYPE_CHECKING:
    from memlint.source import Source

# Characters up to which a file that does not parse is tried with libcst.
_PROBED = 200_000
# ``except ValueError, error:`` of Python 2. Python 3.14 reads it as two classes without brackets.
_PYTHON_2 = re.compile(r"\s*except\b[^#]{0,1000},\s*[a-z_]\w*\s*:")


def syntax_diagnostic(source: Source, error: SyntaxError) -> FileError:
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


def parse(source: Source) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        parse_python(source.text)


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
