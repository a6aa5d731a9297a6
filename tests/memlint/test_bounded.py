"""Files that a repository chooses are read to a limit, and only if they are files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from memlint.source.bounded import read_regular, read_regular_text


def test_a_file_is_read_whole_up_to_the_limit(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"x" * 100)
    assert read_regular(str(file), 100) == b"x" * 100
    with pytest.raises(OSError, match="larger than 99 bytes"):
        read_regular(str(file), 99)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes in the file system")
def test_a_pipe_is_refused_at_once(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(OSError, match="not a regular file"):
        read_regular(str(pipe))


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="no such device")
def test_a_device_is_refused_through_a_link(tmp_path: Path) -> None:
    link = tmp_path / "requirements.txt"
    link.symlink_to("/dev/zero")
    with pytest.raises(OSError, match="not a regular file"):
        read_regular(str(link))


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        read_regular(str(tmp_path))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_text_is_decoded_by_its_byte_order_mark(tmp_path: Path, encoding: str) -> None:
    file = tmp_path / "requirements.txt"
    file.write_bytes("trl==0.12.2\r\npeft\n".encode(encoding))
    assert read_regular_text(str(file)) == "trl==0.12.2\npeft\n"
