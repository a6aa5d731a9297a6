"""Bytes in, bytes out: encodings, marks and newlines survive, bad input is one diagnostic."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memlint.source import reading
from memlint.source.diagnostics import ReadError
from memlint.source.reading import MAX_BYTES, encode, read_source

KEPT = {
    "plain": b"x = 1\n",
    "empty": b"",
    "crlf": b"x = 1\r\ny = 2\r\n",
    "lone-cr": b"x = 1\ry = 2\r",
    "mixed": b"x = 1\r\ny = 2\nz = 3",
    "bom": b"\xef\xbb\xbfx = '\xc3\xa4'\n",
    "bom-and-cookie": b"\xef\xbb\xbf# coding: utf-8\nx = 1\n",
    "latin-1": b"# -*- coding: latin-1 -*-\nx = '\xe4'\n",
    "second-line-cookie": b"#!/usr/bin/python\n# vim: set fileencoding=cp1252 :\nx = '\x80'\n",
    "form-feed": b"x = 1\n\x0cy = 2\n",
    "line-separator": "x = '\u2028'\n".encode(),
}


@pytest.mark.parametrize("data", KEPT.values(), ids=KEPT.keys())
def test_unchanged_text_gives_back_the_bytes(data: bytes) -> None:
    source = read_source("a.py", data)
    assert encode(source, source.text) == data
    assert encode(source, source.text + "# more") == data + b"# more"


def test_cookie_decides_what_bytes_mean() -> None:
    assert "'ä'" in read_source("a.py", KEPT["latin-1"]).text
    assert "'€'" in read_source("a.py", KEPT["second-line-cookie"]).text
    # A cookie on line two counts only under a comment or a blank line.
    with pytest.raises(ReadError, match="not UTF-8"):
        read_source("a.py", b"x = 1\n# coding: latin-1\ny = '\xe4'\n")
    # Of two, the first counts.
    both = b"# coding: latin-1\n# coding: utf-8\nx = '\xe4'\n"
    assert read_source("a.py", both).encoding == "iso8859-1"


def test_what_the_encoding_lacks_is_not_written() -> None:
    source = read_source("a.py", KEPT["latin-1"])
    with pytest.raises(ValueError, match="cannot be written in its encoding"):
        encode(source, source.text + "x = '€'")


@pytest.mark.parametrize(
    ("data", "message", "row", "column"),
    [
        (b"x = 1\ny = '\xff'\n", "is not UTF-8: byte 0xff", 2, 6),
        (b"\xff\xfex\x00", "UTF-16", 1, 1),
        (b"\xfe\xff\x00x", "UTF-16", 1, 1),
        (b"# coding: klingon\n", "does not know: klingon", 1, 1),
        (b"# coding: hex\n", "does not know: hex", 1, 1),
        (b"\xef\xbb\xbf# coding: latin-1\n", "declares itself to be latin-1", 1, 1),
        (b"x = 1\nab\0c\n", "null byte", 2, 3),
    ],
)
def test_undecodable_files_say_where(data: bytes, message: str, row: int, column: int) -> None:
    with pytest.raises(ReadError) as caught:
        read_source("a.py", data)
    diagnostic = caught.value.diagnostic
    assert message in diagnostic.message
    assert (diagnostic.path, diagnostic.row, diagnostic.column) == ("a.py", row, column)


def test_too_large_is_refused_unread(tmp_path: Path) -> None:
    big = tmp_path / "big.py"
    with big.open("wb") as file:
        file.truncate(MAX_BYTES + 1)
    with pytest.raises(ReadError, match="is 20 MiB, more than the 20 MiB"):
        read_source(big)
    with pytest.raises(ReadError, match="more than"):
        read_source("big.py", b"#" * (MAX_BYTES + 1))


def test_missing_file_and_folder_are_diagnostics(tmp_path: Path) -> None:
    with pytest.raises(ReadError, match="no such file"):
        read_source(tmp_path / "none.py")
    with pytest.raises(ReadError, match="is a directory"):
        read_source(tmp_path)


def test_growing_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MAX_BYTES", 10)
    file = tmp_path / "a.py"
    file.write_bytes(b"#" * 11)
    with pytest.raises(ReadError, match="more than"):
        read_source(file)


@given(st.text(st.characters(exclude_characters="\0\ufeff", codec="utf-8")))
def test_any_text_round_trips(text: str) -> None:
    data = text.encode()
    if b"coding" in data:
        return
    source = read_source("a.py", data)
    assert source.text == text
    assert encode(source, source.text) == data
