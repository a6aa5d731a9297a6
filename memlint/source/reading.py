"""Bytes to ``Source`` and back: encodings, byte order marks, newlines and notebooks survive.

A file is decoded the way Python itself would (PEP 263 cookie, UTF-8 otherwise) and its newlines
are left as they are, so that ``encode`` gives back every byte that a fix did not name. What cannot
be read is one ``FileError`` with its place, never a traceback.

Cost: one read and one decode per file; 14 MB of scripts take some 20 ms.
"""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

from memlint.source.bounded import read_named
from memlint.source.diagnostics import FileError, ReadError, reason
from memlint.source.record import NamedTuple
from memlint.source.text import Source

# A script of this size is generated data; the parser would take seconds and gigabytes over it.
MAX_BYTES = 20 * 1024 * 1024

_UTF8_BOM = b"\xef\xbb\xbf"
_OTHER_BOMS = {
    b"\xff\xfe\x00\x00": "UTF-32",
    b"\x00\x00\xfe\xff": "UTF-32",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}
_LONGEST_CODEC = 40
_NO_SCRIPTS = frozenset({"punycode", "idna", "undefined"})
# PEP 263: the cookie is a comment on line one, or on line two if line one is blank or a comment.
_COOKIE = rb"(?:[ \t\f]*(?:#[^\r\n]*)?(?:\r\n|\r|\n))??[ \t\f]*#[^\r\n]*?coding[:=][ \t]*([-\w.]+)"


class Read(NamedTuple):
    """A source, and what of it had to be left out (cells of a notebook that do not parse)."""

    source: Source
    diagnostics: tuple[FileError, ...] = ()


class Stamp(NamedTuple):
    """What tells that a file is the one that was read: any write changes one of them."""

    device: int
    inode: int
    bytes: int
    modified_ns: int
    changed_ns: int

    @staticmethod
    def of(status: os.stat_result) -> Stamp:
        return Stamp(
            status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
        )


class FileData(NamedTuple):
    """A file's bytes, and the file's stamp when they were read."""

    data: bytes
    stamp: Stamp


def read_file(path: str) -> FileData:
    """Return the file at ``path``; raises ``ReadError`` if it is unreadable, no file, or too large.

    A pipe that the user named is read to its end: once, since it is then empty.
    """
    try:
        data, status = read_named(path, MAX_BYTES)
    except OSError as error:
        if error.errno == errno.EFBIG:
            raise ReadError(_too_large(path, _size(path))) from None
        raise ReadError(FileError(path, f"cannot be read: {reason(error)}")) from None
    return FileData(data, Stamp.of(status))


def read_bytes(path: str) -> bytes:
    """Return the bytes of ``path``; raises ``ReadError`` as ``read_file`` does."""
    return read_file(path).data


def _size(path: str) -> int:
    """Return the bytes that a file is said to have; of a pipe, those that were read."""
    return max(os.stat(path).st_size, MAX_BYTES + 1)


def read_source(path: Path | str, data: bytes | None = None) -> Source:
    """Return the script at ``path`` (or ``data``, named so); raises ``ReadError``."""
    return read(path, data).source


def read(path: Path | str, data: bytes | None = None) -> Read:
    """Read as ``read_source`` does, with the diagnostics of notebook cells that are left out."""
    name = os.fspath(path)
    if data is None:
        data = read_bytes(name)
    if len(data) > MAX_BYTES:
        raise ReadError(_too_large(name, len(data)))
    if name.endswith(".ipynb"):
        from memlint.source.notebook import read_notebook

        return Read(*read_notebook(name, data))
    bom = data.startswith(_UTF8_BOM)
    body = data[len(_UTF8_BOM) :] if bom else data
    encoding = _encoding(name, body, bom)
    try:
        text = body.decode(encoding)
    except UnicodeDecodeError as error:
        row, column = _place(body, error.start)
        bad = body[error.start]
        raise ReadError(
            FileError(
                name,
                f"is not {encoding.upper()}: byte 0x{bad:02x} cannot be decoded; save it as UTF-8 "
                "or declare its encoding in a coding comment",
                row,
                column,
            )
        ) from None
    if "\0" in text:
        row, column = _place(body, body.find(b"\0"))
        raise ReadError(FileError(name, "holds a null byte: not a text file", row, column))
    masked = ""
    if name.endswith(".py") and (b"\n!" in body or b"\n%" in body or body[:1] in (b"!", b"%")):
        from memlint.source.masking import mask_script

        text, masked = mask_script(text)
    return Read(Source(name, text, data, encoding, bom, masked=masked))


def encode(source: Source, new_text: str) -> bytes:
    """Return the bytes of the file once its text is ``new_text``.

    Byte order mark, encoding and newlines are kept; of a notebook only the changed cells change.
    Raises ``ValueError`` where the new text cannot be written so.
    """
    if new_text == source.text:
        return source.raw
    if source.is_notebook:
        from memlint.source.notebook import write_notebook

        return write_notebook(source, new_text)
    if source.masked:
        from memlint.source.masking import Masks, unmask

        new_text = unmask(new_text, Masks(source.masked))
    try:
        data = new_text.encode(source.encoding)
    except UnicodeEncodeError as error:
        wanted = new_text[error.start : error.end]
        raise ValueError(
            f"{source.path}: {wanted!r} cannot be written in its encoding, {source.encoding}"
        ) from None
    return _UTF8_BOM + data if source.bom else data


def _encoding(path: str, body: bytes, bom: bool) -> str:
    """Return the codec's name by the coding comment; UTF-8 if there is none."""
    if not bom:
        for mark, name in _OTHER_BOMS.items():
            if body.startswith(mark):
                raise ReadError(
                    FileError(path, f"is {name}, not UTF-8, and Python cannot run it", 1, 1)
                )
    # Nearly every file says nothing: known without a pattern.
    second = body.find(b"\n", body.find(b"\n") + 1)
    head = body[:second] if second >= 0 else body
    found = re.match(_COOKIE, body) if b"coding" in head else None
    if found is None:
        return "utf-8"
    cookie = found[1].decode("ascii", "replace")
    if len(cookie) > _LONGEST_CODEC:
        cookie = f"{cookie[:_LONGEST_CODEC]}..."
    row, _ = _place(body, found.start(1))
    import codecs
    import contextlib

    try:
        name = codecs.lookup(cookie).name
        with contextlib.suppress(UnicodeDecodeError):
            # rot13 or hex map text to text or bytes to bytes, ``undefined`` maps nothing, and what
            # punycode or idna decode takes quadratic time: no script's encoding.
            b" ".decode(cookie)
        if name in _NO_SCRIPTS:
            raise LookupError(cookie)
    except (LookupError, ValueError):
        raise ReadError(
            FileError(path, f"declares an encoding that Python does not know: {cookie}", row, 1)
        ) from None
    if bom and name not in {"utf-8", "utf-8-sig"}:
        raise ReadError(
            FileError(path, f"begins as UTF-8 but declares itself to be {cookie}", row, 1)
        )
    return "utf-8" if name == "utf-8-sig" else name


def _place(data: bytes, offset: int) -> tuple[int, int]:
    """Return the 1-based row and column (bytes) of ``offset``."""
    row, start = 1, 0
    for newline in re.finditer(rb"\r\n|\r|\n", data[:offset]):
        row, start = row + 1, newline.end()
    return row, offset - start + 1


def _too_large(path: str, size: int) -> FileError:
    return FileError(
        path,
        f"is {size / 1024**2:.0f} MiB, more than the {MAX_BYTES // 1024**2} MiB that are read; "
        "exclude it in the configuration",
    )
