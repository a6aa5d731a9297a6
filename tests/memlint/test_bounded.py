"""Files that a repository chooses are read to a limit, and only if they are files."""

from __future__ import annotations

import ast
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from memlint.source.bounded import parse_json, read_named, read_regular, read_regular_text


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


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes in the file system")
def test_a_pipe_that_the_user_names_is_read_to_its_end(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(OSError, match="nobody writes to"):
        read_named(str(pipe))
    writing = threading.Event()

    def write() -> None:
        with pipe.open("wb", buffering=0) as stream:
            writing.set()
            for _ in range(3):
                stream.write(b"x" * 100_000)

    # Held open, so that the writer may begin.
    holder = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    writer = threading.Thread(target=write)
    writer.start()
    writing.wait()
    data, _ = read_named(str(pipe), 300_000)
    writer.join()
    os.close(holder)
    assert data.count(b"x") == len(data) == 300_000


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="no such device")
def test_what_has_no_end_is_read_to_the_limit() -> None:
    with pytest.raises(OSError, match="larger than 1,000 bytes"):
        read_named("/dev/zero", 1_000)


def test_a_huge_file_is_not_read_at_all(tmp_path: Path) -> None:
    sparse = tmp_path / "sparse.json"
    with sparse.open("wb") as file:
        file.truncate(1 << 40)
    for read in (read_regular, read_named):
        with pytest.raises(OSError, match="larger than"):
            read(str(sparse), 1_000)


@pytest.mark.parametrize("text", ["[" * 200_000, "9" * 5_000, "{", b"\xff"])
def test_json_that_cannot_be_read_is_a_value_error(text: str | bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_json(text)


# What maintainers run on released wheels; what maps the tables that we ship; and what a run of the
# user's own script is handed, and leaves.
_OWN = {
    "memlint/api/extract": {"__main__.py", "memory_options.py", "recipe_schemas.py", "wheels.py"},
    "memlint/api": {"tables.py"},
    "memlint/proof": {"child.py", "comparing.py"},
    "memlint/trace": {"traced_run.py"},
}


def reads(tree: ast.AST) -> Iterator[ast.Call]:
    """Calls that open a file to read it."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id="open"), args=[_, ast.Constant(value=mode), *_]):
                if "r" in str(mode) or "+" in str(mode):
                    yield node
            case ast.Call(func=ast.Name(id="open")):
                yield node
            case ast.Call(func=ast.Attribute(attr="read_text" | "read_bytes")):
                yield node
            case ast.Call(func=ast.Attribute(value=ast.Name(id="os"), attr="read")):
                yield node
            case ast.Call(func=ast.Attribute(value=ast.Name(id="os"), attr="open"), args=args):
                if not any(
                    word in ast.unparse(args[1]) for word in ("WR", "_NEW", "O_PATH", "flags")
                ):
                    yield node


def test_nothing_else_reads_files() -> None:
    root = Path(__file__).parents[2]
    found = []
    for path in sorted((root / "memlint").rglob("*.py")):
        if path.name in _OWN.get(path.parent.relative_to(root).as_posix(), ()):
            continue
        if path == root / "memlint/source/bounded.py":
            continue
        name = path.relative_to(root).as_posix()
        calls = reads(ast.parse(path.read_text(encoding="utf-8")))
        found += [f"{name}: {ast.unparse(call)}" for call in calls]
    assert found == ["memlint/fix/atomic.py: os.open(directory, os.O_RDONLY)"]
