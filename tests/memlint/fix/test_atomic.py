"""The file is replaced as a whole or not at all."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from memlint.fix.atomic import other_names, write_atomically


def test_content_is_replaced_and_the_mode_stays(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_bytes(b"old")
    path.chmod(0o754)
    write_atomically(path, b"\xef\xbb\xbfnew\r\n")
    assert path.read_bytes() == b"\xef\xbb\xbfnew\r\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o754
    assert os.listdir(tmp_path) == ["train.py"]


def test_a_link_stays_a_link_and_its_target_changes(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    target = tmp_path / "real" / "train.py"
    target.write_bytes(b"old")
    link, second = tmp_path / "link.py", tmp_path / "second.py"
    link.symlink_to(Path("real") / "train.py")
    second.symlink_to(link)
    write_atomically(second, b"new")
    assert link.is_symlink()
    assert second.is_symlink()
    assert target.read_bytes() == b"new"
    assert os.listdir(tmp_path / "real") == ["train.py"]


@pytest.mark.parametrize("broken", ["fsync", "replace", "chmod"])
def test_failure_leaves_the_file_and_nothing_beside_it(
    broken: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "train.py"
    path.write_bytes(b"old")

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, broken, fail)
    with pytest.raises(OSError, match="disk full"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["train.py"]


def test_read_only_missing_and_strange_files_are_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(FileNotFoundError):
        write_atomically(tmp_path / "missing.py", b"new")
    with pytest.raises(OSError, match="not a regular file"):
        write_atomically(tmp_path, b"new")
    path = tmp_path / "train.py"
    path.write_bytes(b"old")
    # The superuser may write anything, so the answer is given instead of a mode.
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(PermissionError, match="read-only"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"


@pytest.mark.skipif(not hasattr(os, "setxattr"), reason="no extended attributes here")
def test_extended_attributes_stay(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_bytes(b"old")
    try:
        os.setxattr(path, "user.origin", b"https://example.org")
    except OSError:
        pytest.skip("the file system has no extended attributes")
    write_atomically(path, b"new")
    assert os.getxattr(path, "user.origin") == b"https://example.org"


def test_other_names_keep_the_old_content_and_are_counted(tmp_path: Path) -> None:
    path, other = tmp_path / "train.py", tmp_path / "cached.py"
    path.write_bytes(b"old")
    assert other_names(path) == 0
    os.link(path, other)
    assert other_names(path) == 1
    write_atomically(path, b"new")
    assert (path.read_bytes(), other.read_bytes()) == (b"new", b"old")


def test_a_long_name_can_be_written(tmp_path: Path) -> None:
    path = tmp_path / ("ä" * 120 + ".py")
    path.write_bytes(b"old")
    write_atomically(path, b"new")
    assert path.read_bytes() == b"new"
