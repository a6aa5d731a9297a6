"""``--add-ignore``: write a suppression beside every finding, so that only new ones are reported.

A comment goes to the end of the line that the finding begins on; where a string or a backslash
runs over that end, to the end of the line where the finding ends. A comment changes nothing that
runs: the file is written only if it still says the same to its parser.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
import warnings
from collections.abc import Iterable, Sequence

from memlint.recipes.files import is_document, is_launch_file
from memlint.rule.file_rules import FILE_RULES
from memlint.run.results import Rendered
from memlint.source import Source
from memlint.source.diagnostics import FileError, ReadError, reason
from memlint.source.reading import encode, read_source
from memlint.source.record import NamedTuple

_KNOWN = re.compile(r"#\s*memlint:\s*ignore\s*\[(?P<codes>[^\]]{0,1000})\]", re.IGNORECASE)
_MOST = 120  # characters of a reason


class Ignored(NamedTuple):
    """How many findings are ignored now, and what could not be."""

    written: int
    problems: list[FileError]


class Commented(NamedTuple):
    """The text with its suppressions, None where none is to be written; findings without one."""

    text: str | None
    left: list[Rendered]


def with_ignores(source: Source, findings: Sequence[Rendered], why: str = "") -> Commented:
    """Return the text with a suppression for each of ``findings``. Raise ``ValueError`` where the
    comments would change what the text says."""
    by_line: dict[tuple[int, bool], set[str]] = {}
    left = []
    ends = _ends_of_code(source)
    for finding in findings:
        at = _line(source, finding, ends)
        if at is None:
            left.append(finding)
        else:
            by_line.setdefault(at, set()).add(finding.code)
    if not by_line:
        return Commented(None, left)
    text = _with_comments(source, by_line, " ".join(why.split())[:_MOST])
    if _meaning(source.path, text) != _meaning(source.path, source.text):
        raise ValueError("could not be given comments without changing it")
    return Commented(text, left)


def add_ignores(path: str, findings: Sequence[Rendered], why: str = "") -> Ignored:
    """Write a suppression for each of ``findings`` into the file at ``path``."""
    wanted = [each for each in findings if each.code not in {rule.code for rule in FILE_RULES}]
    if not wanted:
        return Ignored(0, [])
    if path.endswith(".json") or is_launch_file(path):
        what = "JSON has no comments" if path.endswith(".json") else "a comment may end a command"
        told = f"{what}: {len(wanted)} of its findings stay; `per-file-ignores` silences them"
        return Ignored(0, [FileError(path, told)])
    from memlint.fix.atomic import write_atomically

    try:
        source = read_source(path)
        text, left = with_ignores(source, wanted, why)
        if text is not None:
            write_atomically(path, encode(source, text))
    except ReadError as error:
        return Ignored(0, [error.diagnostic])
    except (OSError, ValueError) as error:
        told = str(error)
        if isinstance(error, OSError):
            told = f"could not be written: {reason(error)}; left as it was"
        return Ignored(0, [FileError(path, told)])
    told = "could not be ignored: no comment can stand on its line"
    problems = [FileError(path, f"{each.code} {told}", *each.start) for each in left]
    return Ignored(len(wanted) - len(left), problems)


def _line(
    source: Source, finding: Rendered, ends: frozenset[int] | None
) -> tuple[int, bool] | None:
    """Return the 0-based line that the comment goes to; None where none can.

    True beside it: the comment stands above the line.
    """
    first = 0
    for cell in source.cells:
        if cell.number == finding.start.cell:
            first = source.line(cell.span.start)
    for row in (finding.start.row, finding.end.row):
        line = first + row - 1
        if line < len(source.line_starts) and (ends is None or line in ends):
            return line, False
    line = first + finding.start.row - 1
    if ends and line < len(source.line_starts) and (not line or line - 1 in ends):
        return line, True
    return None


def _ends_of_code(source: Source) -> frozenset[int] | None:
    """Return the 0-based lines that a comment may follow; None for YAML, where its parser says.

    A line within a string, or before a backslash, has no end of its own.
    """
    if is_document(source.path):
        return None
    # Lines as ``Source`` counts them; a lone carriage return ends one, which tokenize ignores.
    text = re.sub(r"\r\n|\r", "\n", source.text)
    lines = set()
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type in (tokenize.NEWLINE, tokenize.NL):
                lines.add(token.start[0] - 1)
    except (tokenize.TokenError, SyntaxError):
        return frozenset()
    return frozenset(lines)


def _with_comments(source: Source, by_line: dict[tuple[int, bool], set[str]], why: str) -> str:
    """Return the text with a comment on each line, or the codes added to the one that is there."""
    pieces, last = [], 0
    newline = "\r\n" if "\r\n" in source.text else "\n"
    for line, above in sorted(by_line, key=lambda at: (at[0], not at[1])):
        start = source.line_starts[line]
        text = source.line_text(line)
        pieces.append(source.data[last:start])
        if above:
            indentation = text[: len(text) - len(text.lstrip())]
            comment = f"{indentation}{_commented('', by_line[line, above], why).lstrip()}{newline}"
            pieces.append(comment.encode())
            last = start
        else:
            changed = _commented(text, by_line[line, above], why)
            pieces.append(changed.encode("utf-8", "surrogatepass"))
            last = start + len(text.encode("utf-8", "surrogatepass"))
    return b"".join([*pieces, source.data[last:]]).decode("utf-8", "surrogatepass")


def _commented(text: str, codes: Iterable[str], why: str) -> str:
    there = list(_KNOWN.finditer(text))
    if there:
        last = there[-1]
        more = [each.strip() for each in last["codes"].split(",") if each.strip()]
        all_codes = ", ".join(dict.fromkeys([*more, *sorted(codes)]))
        return f"{text[: last.start('codes')]}{all_codes}{text[last.end('codes') :]}"
    comment = f"# memlint: ignore[{', '.join(sorted(codes))}]"
    return f"{text.rstrip()}  {comment}{f' {why}' if why else ''}"


def _meaning(path: str, text: str) -> object:
    """Return what the text says to its parser, comments and places left out."""
    if is_document(path):
        import yaml

        try:
            return [
                (type(event), getattr(event, "value", None), getattr(event, "anchor", None))
                for event in yaml.parse(text, Loader=yaml.SafeLoader)
            ]
        except yaml.YAMLError as error:
            return type(error)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.dump(ast.parse(text))
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            return type(error)
