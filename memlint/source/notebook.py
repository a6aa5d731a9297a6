"""Notebooks: code cells joined into one script, and edits spliced back into their cells.

Each code cell stands under a comment line that names it; magics, shell lines and help requests are
masked, line for line, by something that parses and says what it stood for. A cell that does not
parse even so is left out with a diagnostic. Writing back changes the JSON string of the changed
lines and nothing else: parsing and dumping the notebook anew would rewrite numbers (``1.10``),
escapes (``\\/``) and indentation.

Cost: one ``json.loads``; one ``ast.parse`` a cell, or of all where one cell is most of them. The
cells' places in the JSON text are found when something is written.
"""

import json
import re
from bisect import bisect
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

from memlint.source.bounded import parse_json
from memlint.source.diagnostics import FileError, ReadError
from memlint.source.masking import Masks, magics, mask, mask_alone, unmask
from memlint.source.parsing import parse_python
from memlint.source.patterns import lazy_pattern
from memlint.source.record import NamedTuple
from memlint.source.text import Cell, Location, Source, Span, common_start

_BOM = b"\xef\xbb\xbf"
_JSON = json.JSONDecoder()
_BETWEEN = lazy_pattern(r"[ \t\n\r,:]*")


class _CodeCell(NamedTuple):
    """``number`` counts all cells from 1; ``text`` as the notebook shows it, magics included."""

    number: int
    text: str


class _Marks(NamedTuple):
    """The comments by which cells and masked lines are found again."""

    cell: str
    masks: Masks

    def header(self, number: int) -> str:
        return f"# {self.cell} {number}\n"


def read_notebook(path: str, data: bytes) -> tuple[Source, tuple[FileError, ...]]:
    """Return the code cells of a notebook as one source, and what had to be left out."""

    bom = data.startswith(_BOM)
    try:
        text = data[len(_BOM) if bom else 0 :].decode("utf-8")
        document = parse_json(text)
    except UnicodeDecodeError as error:
        raise ReadError(
            FileError(path, f"is not UTF-8: byte {error.start} cannot be decoded")
        ) from None
    except json.JSONDecodeError as error:
        what = f"is broken JSON: {error.msg}" if data.strip() else "is empty, which is no notebook"
        raise ReadError(FileError(path, what, error.lineno, error.colno)) from None
    except ValueError as error:
        raise ReadError(FileError(path, f"cannot be read as JSON: {error}")) from None
    try:
        cells = _code_cells(document)
    except ValueError as error:
        raise ReadError(FileError(path, str(error))) from None

    marks = _marks(cells)
    bodies, errors = _bodies(cells, marks)
    diagnostics = tuple(
        FileError(
            path,
            f"cell {number} does not parse and was left out: {error.msg}",
            error.lineno or 1,
            error.offset or 1,
            number,
        )
        for number, error in errors.items()
    )
    text, kept = _joined(bodies, marks)
    return Source(path, text, data, bom=bom, cells=kept), diagnostics


def write_notebook(source: Source, new_text: str) -> bytes:
    """Return the notebook's bytes once its joined text is ``new_text``.

    Raises ``ValueError`` if the lines that name the cells are not all there, in order.
    """
    bom = source.raw.startswith(_BOM)
    raw = source.raw[len(_BOM) if bom else 0 :].decode("utf-8")
    marks = _marks(_code_cells(json.loads(raw)))
    before = _split(source.text, marks)
    after = _split(new_text, marks)
    if [number for number, _ in before] != [number for number, _ in after]:
        raise ValueError(
            f"{source.path}: the edit crosses the border between two cells; nothing was written"
        )
    spans = source_spans(raw)
    for (number, old), (_, new) in reversed(list(zip(before, after, strict=True))):
        if old != new:
            start, end = spans[number]
            spliced = _splice(raw[start:end], unmask(new, marks.masks))
            raw = raw[:start] + spliced + raw[end:]
    return (_BOM if bom else b"") + raw.encode("utf-8")


def cell_texts(source: Source, text: str) -> dict[int, str]:
    """Split ``text``, a version of the notebook's joined text, into cells: number -> shown code."""
    marks = _marks_of(source.raw)
    return {number: unmask(body, marks.masks) for number, body in _split(text, marks)}


def shown_cells(source: Source) -> list[str]:
    """Return the code of all cells as the notebook shows it, in any language."""
    return [cell.text for cell in _cells_of(source.raw)]


def magic_lines(source: Source) -> Iterator[list[tuple[str, int]]]:
    """Yield the magics of each cell, each line with its offset in characters of the joined text."""
    marks = _marks_of(source.raw)
    at = 0
    for number, body in _split(source.text, marks):
        at += len(marks.header(number))
        yield [(text, at + start) for text, start in magics(body, marks.masks)]
        at += len(body) + 1


def place_shown(source: Source, offset: int) -> tuple[Location, str]:
    """Return where readers see ``offset`` of a text with masked lines, and its line."""
    text = source.line_text(source.line(offset))
    place = source.location(offset)
    line = unmasker(source)(text)
    column = place.column - (len(text) - len(line))
    return (place._replace(column=column) if column > 0 else place), line


def unmasker(source: Source) -> Callable[[str], str]:
    """Gives any piece of the joined text back as the notebook, or its export, shows it."""
    masks = Masks(source.masked) if source.masked else _marks_of(source.raw).masks
    return lambda text: unmask(text, masks)


# Every finding of a notebook is shown by them.
@lru_cache(maxsize=2)
def _marks_of(raw: bytes) -> _Marks:
    return _marks(_cells_of(raw))


def _cells_of(raw: bytes) -> list[_CodeCell]:
    return _code_cells(json.loads(raw.removeprefix(_BOM)))


def _code_cells(document: Any) -> list[_CodeCell]:
    """Return a parsed notebook's code cells. Raise ``ValueError`` if it is not a notebook."""
    if not isinstance(document, dict):
        raise ValueError("is JSON, but not a notebook: it holds no object")
    cells = document.get("cells")
    if cells is None and "worksheets" in document:
        raise ValueError(
            "is a notebook of format 3 or older; convert it with "
            "`jupyter nbconvert --to notebook --inplace`"
        )
    if not isinstance(cells, list):
        raise ValueError("is JSON, but not a notebook: it has no list of cells")
    if not _speaks_python(document.get("metadata")):
        return []
    found = []
    for number, cell in enumerate(cells, start=1):
        if not isinstance(cell, dict):
            raise ValueError(f"is a broken notebook: cell {number} is no object")
        if cell.get("cell_type") == "code":
            found.append(_CodeCell(number, _code(number, cell.get("source", ""))))
    return found


def _code(number: int, source: Any) -> str:
    """Return the text of a code cell. Raise ``ValueError`` if its source is not text."""
    lines = source if isinstance(source, list) else [source]
    for line in lines:
        if not isinstance(line, str):
            raise ValueError(
                f"is a broken notebook: the source of cell {number} must be text or a list of "
                f"lines, {'not' if line is source else 'and holds'} {json.dumps(line):.40}"
            )
    return "".join(lines)


def _speaks_python(metadata: Any) -> bool:
    """True if the kernel is Python's, as far as the notebook says."""
    if not isinstance(metadata, dict):
        return True
    for part, key in (("language_info", "name"), ("kernelspec", "language")):
        value = metadata.get(part)
        language = value.get(key) if isinstance(value, dict) else None
        if isinstance(language, str):
            return "python" in language.lower()
    return True


def _marks(cells: list[_CodeCell]) -> _Marks:
    """Marker words that no cell holds already."""
    salt = ""
    while any(f"memlint{salt}-" in cell.text for cell in cells):
        salt = str(int(salt or "0") + 1)
    return _Marks(f"memlint{salt}-cell", Masks(f"memlint{salt}-magic"))


def _bodies(cells: list[_CodeCell], marks: _Marks) -> tuple[dict[int, str], dict[int, SyntaxError]]:
    """Return the cells that are Python, masked, by number; and what is wrong with others."""
    bodies = {cell.number: cell.text for cell in cells}
    errors: dict[int, SyntaxError] = {}
    by_length = sorted(cells, key=lambda cell: len(cell.text))
    for cell in by_length:
        # The longest comes last, to be parsed with what is left of the others.
        if cell is by_length[-1] and _parses_with(cell, bodies, marks):
            continue
        body, broken = _as_python(cell.text, marks.masks)
        if body is not None:
            bodies[cell.number] = body
            continue
        del bodies[cell.number]
        if broken is not None:
            errors[cell.number] = broken
    return bodies, dict(sorted(errors.items()))


def _joined(bodies: dict[int, str], marks: _Marks) -> tuple[str, tuple[Cell, ...]]:
    """Return cells as one script, and where in it they are."""
    parts: list[str] = []
    kept: list[Cell] = []
    end = -1
    for number, body in bodies.items():
        header = marks.header(number)
        start = end + 1 + len(header)
        end = start + len(body.encode("utf-8", "surrogatepass"))
        kept.append(Cell(number, Span(start, end)))
        parts += (header, body, "\n")
    return "".join(parts), tuple(kept)


def _parses_with(cell: _CodeCell, bodies: dict[int, str], marks: _Marks) -> bool:
    """True if a cell, most of all that there is, parses by itself: by how it does with others."""
    text, _ = _joined(bodies, marks)
    if 2 * len(cell.text) < len(text) or cell.text.rstrip().endswith("\\") or _parse_error(text):
        return False
    lines = enumerate(re.split(r"\r\n?|\n", text), 1)
    headers = [row for row, line in lines if line.startswith(f"# {marks.cell} ")]
    for statement in parse_python(text).body:
        parts: list[Any] = [statement, *getattr(statement, "decorator_list", ())]
        first = min(part.lineno for part in parts)
        if bisect(headers, first) != bisect(headers, statement.end_lineno or 0):
            return False
    return True


def _as_python(text: str, masks: Masks) -> tuple[str | None, SyntaxError | None]:
    """Read a cell as Python: (None, None) for another language, (None, error) if it fails."""
    error = _parse_error(text)
    if error is None:
        return text, None
    masked = mask(text, masks)
    if masked is None:
        return None, None
    masked = mask_alone(text, masks) if masked == text else masked
    if masked == text:
        return None, error
    error = _parse_error(masked)
    return (None, error) if error is not None else (masked, None)


def _parse_error(text: str) -> SyntaxError | None:
    try:
        parse_python(text)
    except SyntaxError as error:
        return error
    except (ValueError, RecursionError, MemoryError) as error:
        return SyntaxError(str(error) or "takes more memory than there is")
    return None


def _split(text: str, marks: _Marks) -> list[tuple[int, str]]:
    """Return (number, body) of every cell in a joined text."""
    pieces = re.split(rf"^# {re.escape(marks.cell)} (\d+)\n", text, flags=re.MULTILINE)
    if pieces[0]:
        raise ValueError("text stands before the first cell; nothing was written")
    # Every body ends in the newline that joining added: it belongs to no cell.
    return [
        (int(number), body.removesuffix("\n"))
        for number, body in zip(pieces[1::2], pieces[2::2], strict=True)
    ]


def source_spans(raw: str) -> dict[int, tuple[int, int]]:
    """Where in the JSON text the ``source`` value of every cell is, by the cell's number.

    The text is known to be valid JSON. Of repeated keys the last counts, as it does for ``json``.
    """
    cells = [
        _values(raw, start)
        for key, start, _ in _members(raw, _next(raw, 0))
        if key == "cells" and raw[start] == "["
    ]
    return {
        number: (start, end)
        for number, (cell, _) in enumerate(cells[-1] if cells else (), start=1)
        if raw[cell] == "{"
        for key, start, end in _members(raw, cell)
        if key == "source"
    }


def _members(raw: str, start: int) -> Iterator[tuple[str, int, int]]:
    """Yield the keys of the JSON object at ``start``, each with the place of its value."""
    places = _values(raw, start)
    for (key_start, key_end), (value_start, value_end) in zip(places, places, strict=True):
        yield json.loads(raw[key_start:key_end]), value_start, value_end


def _values(raw: str, start: int) -> Iterator[tuple[int, int]]:
    """Yield the places of the values in the JSON list at ``start``; of an object, its keys too."""
    place = _next(raw, start + 1)
    while raw[place] not in "]}":
        _, end = _JSON.raw_decode(raw, place)
        yield place, end
        place = _next(raw, end)


def _next(raw: str, place: int) -> int:
    """Return the end of the separator between two JSON values."""
    between = _BETWEEN.match(raw, place)
    assert between is not None, "the expression matches nothing at all, too"
    return between.end()


def _splice(value: str, new: str) -> str:
    """Rewrite only the changed lines in the JSON of a source (a string or a list of strings)."""
    plain = re.search(r"\\u(?!00[01])", value) is not None  # non-ASCII is escaped here
    if value.startswith('"'):
        return json.dumps(new, ensure_ascii=plain)
    items = list(_values(value, 0))
    old = [json.loads(value[start:end]) for start, end in items]
    lines = re.findall(r"[^\n]*\n|[^\n]+", new)
    same = common_start(old, lines)
    tail = common_start(old[same:][::-1], lines[same:][::-1])
    kept_head = [value[start:end] for start, end in items[:same]]
    kept_tail = [value[start:end] for start, end in items[len(items) - tail :]]
    written = [json.dumps(line, ensure_ascii=plain) for line in lines[same : len(lines) - tail]]
    opening = value[: items[0][0]] if items else "["
    closing = value[items[-1][1] :] if items else "]"
    usual = "," + (opening[1:] or " ")
    between = value[items[0][1] : items[1][0]] if len(items) > 1 else usual
    body = between.join([*kept_head, *written, *kept_tail])
    return opening + body + closing if body else "[]"
