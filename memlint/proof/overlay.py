"""A folder that looks like the user's and takes what a run writes, so that theirs stays as it is.

Folders are real; code and small files are copied (whatever writes them writes the copy), large ones
are links. One of these that is opened to be written is copied first. What a run would write into
the user's folder by its absolute path is refused, and so is what would change or remove older files
elsewhere, but for caches; new ones that it makes there are removed after it. That is an audit hook
of Python's, which sees ``open``, ``os``, ``shutil`` and ``sqlite3``; what torch and safetensors
write on their own, Python puts in place. Programs that the run starts and libraries in C write in
its own folder and in caches alone: the kernel sees to that where it has Landlock. What Python opens
elsewhere goes through a thread that may write there.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import glob
import importlib
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from memlint.proof import landlock
from memlint.source.bounded import read_regular

_MOST_ENTRIES = 20_000
_SMALL, _MOST_BYTES = 16 << 20, 256 << 20  # a file that is copied, and all of them
_LEFT_OUT = frozenset({".git", ".hg", "__pycache__", ".venv", "venv", "node_modules", "wandb"})
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
# Events of Python's audit hooks: which of their arguments are paths that change, and which are
# the open folders that these start from.
_CHANGES = {
    "os.mkdir": ((0, 2),), "os.rmdir": ((0, 1),), "os.remove": ((0, 1),),
    "os.rename": ((0, 2), (1, 3)), "os.truncate": ((0, None),), "os.link": ((0, 2), (1, 3)),
    "os.symlink": ((1, 2),), "os.chmod": ((0, 2),), "os.chown": ((0, 3),), "os.utime": ((0, 3),),
    "os.setxattr": ((0, None),), "sqlite3.connect": ((0, None),), "shutil.rmtree": ((0, None),),
}  # fmt: skip
# These change an entry itself, and not what a link leads to.
_ENTRIES = frozenset({"os.mkdir", "os.rmdir", "os.remove", "os.rename", "os.link", "os.symlink"})
# What programs keep for themselves, beside the caches that variables name. Not what else is hidden
# in the user's folder, which holds keys, nor ``/tmp``, which is everybody's.
_CACHES = ("~/.cache", "~/.config", "~/.local/share", "~/.local/state", "~/.nv", "~/.triton")
_OF_CACHES = ("_CACHE", "_CACHE_DIR", "_HOME")
# What Python writes with.
_OPERATIONS = (("builtins", "open"), ("io", "open"), *(("os", name) for name in (
    "open", "mkdir", "rmdir", "remove", "unlink", "rename", "replace", "link", "symlink",
    "truncate", "mkfifo",
)))  # fmt: skip
_MADE = "made-elsewhere"  # in a run's folder: the paths that it makes outside, each before a zero
_WRITERS = (("torch", "save"), *(("safetensors.torch", f"save_{one}") for one in ("file", "model")))


class Overlay:
    """``folder`` as the run sees it, in a new folder ``copy``. files: the texts that some of its
    files have there, by path. lays: make the copy, which other processes of the run wait for."""

    def __init__(
        self, folder: str, copy: str, files: Mapping[str, str] | None = None, *, lays: bool = True
    ) -> None:
        self.folder = os.path.realpath(folder)
        self.copy = os.path.realpath(copy)
        self._left, self._bytes = _MOST_ENTRIES, _MOST_BYTES
        self._texts = files or {}
        above = os.path.dirname(os.path.dirname(self.copy))
        jobs = glob.glob(f"{glob.escape(above)}/*/job.json")
        # What an earlier one of the runs that are compared made is theirs, too.
        self._began = min([time.time(), *map(os.path.getmtime, jobs)])
        is_laid = f"{self.copy}.laid"
        if lays:
            self._lay(self.folder, self.copy)
            for path, text in self._texts.items():
                seen = self.of(path)
                if seen != path:  # no file of an installed package
                    os.unlink(seen)
                    Path(seen).write_text(text, encoding="utf-8")
            os.makedirs(is_laid, exist_ok=True)
        while not os.path.exists(is_laid):
            time.sleep(0.05)

    def _lay(self, folder: str, copy: str) -> None:
        os.makedirs(copy, exist_ok=True)
        with os.scandir(folder) as entries:
            for entry in entries:
                inside = _is_below(self.copy, entry.path)
                holds = any(_is_below(path, entry.path) for path in self._texts)
                if (entry.name in _LEFT_OUT and not holds) or inside:  # never a copy of itself
                    continue
                self._left -= 1
                to = os.path.join(copy, entry.name)
                if entry.is_dir(follow_symlinks=False) and (holds or self._left > 0):
                    self._lay(entry.path, to)
                elif not (entry.is_file() and self._is_copied(entry, to)):
                    os.symlink(entry.path, to)

    def _is_copied(self, entry: os.DirEntry[str], to: str) -> bool:
        """Copy a small file that can be read; a link stands for any other."""
        size = entry.stat().st_size
        if not (entry.name.endswith(".py") or size <= min(_SMALL, self._bytes)):
            return False
        self._bytes -= size
        with contextlib.suppress(OSError):
            shutil.copy2(entry.path, to)
            return True
        with contextlib.suppress(OSError):
            os.unlink(to)
        return False

    def of(self, path: str) -> str:
        """Return where a path below the user's folder is for the run."""
        absolute = os.path.realpath(path)
        if _is_below(absolute, self.folder):
            return os.path.join(self.copy, os.path.relpath(absolute, self.folder))
        return path

    def before_change(self, path: Any, *, whole: bool = False) -> None:
        """Make a path that is about to be written the run's own, or raise ``PermissionError``.

        whole: the entry itself changes, not what it leads to.
        """
        if isinstance(path, int) or path is None:
            return
        name = os.path.abspath(os.fsdecode(path))
        if whole:
            name = os.path.join(os.path.realpath(os.path.dirname(name)), os.path.basename(name))
        elif os.path.islink(name) and name.startswith(os.path.join(self.copy, "")):
            target = os.path.realpath(name)
            if _is_below(target, self.folder) and os.path.isfile(target):
                os.unlink(name)
                shutil.copy2(target, name)
        real = name if whole else os.path.realpath(name)
        if _is_below(real, self.folder) or self._was_there(real):
            told = f"{name}: left as it is: a run that is compared writes nothing here"
            raise PermissionError(told)
        if not (os.path.lexists(real) or any(_is_below(real, each) for each in self._free())):
            with open(os.path.join(os.path.dirname(self.copy), _MADE), "ab") as file:
                file.write(os.fsencode(real) + b"\0")

    def _was_there(self, path: str) -> bool:
        """True of files and folders that are older than the run, and that no cache holds."""
        is_free = "/__pycache__/" in path or any(_is_below(path, each) for each in self._free())
        is_old = os.path.exists(path) and os.path.getctime(path) < self._began
        is_lock = path.endswith(".lock") and os.path.getsize(path) == 0
        return is_old and not is_free and not is_lock

    def _free(self) -> Iterator[str]:
        """Yield the run's own folder, caches, devices, and what leads to CUDA's server."""
        yield from (os.path.dirname(self.copy), "/dev", "/proc", "/tmp/nvidia-mps")
        named = [os.environ[name] for name in os.environ if name.endswith(_OF_CACHES)]
        caches = (*map(os.path.expanduser, _CACHES), *filter(None, named))
        for path in map(os.path.realpath, caches):
            if not any(_is_below(each, path) for each in (os.path.expanduser("~"), self.folder)):
                yield path

    def guard(self) -> None:
        """Watch this process from now on."""
        at = threading.local()

        def hook(event: str, arguments: tuple[Any, ...]) -> None:
            if vars(at) or event not in {"open", *_CHANGES}:
                return
            at.work = True
            try:
                if event == "open":
                    path, mode, flags = arguments
                    by_flags = isinstance(flags, int) and flags & _WRITES
                    if by_flags or set(mode or "") & set("wax+"):
                        self.before_change(path)
                else:
                    for index, folder in _CHANGES[event]:
                        start = None if folder is None else arguments[folder]
                        whole = event in _ENTRIES or event == "shutil.rmtree"
                        self.before_change(_from(start, arguments[index]), whole=whole)
            finally:
                del at.work

        for name in ("~/.cache", "~/.triton"):  # else a library makes them
            with contextlib.suppress(OSError):
                os.makedirs(os.path.expanduser(name), exist_ok=True)
        if landlock.version():
            outside = ThreadPoolExecutor(1)  # its thread begins before this one is kept
            thread = outside.submit(threading.get_ident).result()
            landlock.write_only_below(self._free())
            _replace(_OPERATIONS, functools.partial(_tried_in, outside, thread, os.getpid()))
        sys.addaudithook(hook)

    def guard_writers(self) -> None:
        """Watch the writers of torch and safetensors, which open files on their own."""
        _replace(_WRITERS, self._guarded)

    def _guarded(self, write: Callable[..., Any]) -> Callable[..., Any]:
        """Return a writer that opens files past Python, as one whose files Python puts in place."""

        def guarded(*arguments: Any, **keywords: Any) -> Any:
            given: dict[Any, Any] = {**dict(enumerate(arguments)), **keywords}
            paths = [name for name in (1, "f", "filename")
                     if isinstance(given.get(name), str | bytes | os.PathLike)]  # fmt: skip
            if not paths:  # an open file
                return write(*arguments, **keywords)
            path = os.fsdecode(given[paths[0]])
            self.before_change(path)
            part = os.path.join(os.path.dirname(self.copy), f"part-{threading.get_ident()}")
            is_outside = not _is_below(os.path.realpath(path), self.copy)
            if is_outside:
                given[paths[0]] = part
            rest = {name: value for name, value in given.items() if isinstance(name, str)}
            written = write(*(given[index] for index in range(len(arguments))), **rest)
            if is_outside:
                shutil.move(part, path)
            return written

        return guarded


def remove_made(folder: str) -> None:
    """Remove what a run of ``folder`` made elsewhere: files, and folders that are empty."""
    with contextlib.suppress(OSError):
        made = read_regular(os.path.join(folder, _MADE), _MOST_BYTES)
        for path in reversed(made.split(b"\0")[:-1]):
            with contextlib.suppress(OSError):
                is_folder = os.path.isdir(path) and not os.path.islink(path)
                os.rmdir(path) if is_folder else os.unlink(path)


def _replace(names: Iterable[tuple[str, str]], made: Callable[[Any], Any]) -> None:
    for module, name in names:
        with contextlib.suppress(ImportError, AttributeError):  # not here, or in no such release
            holder = importlib.import_module(module)
            setattr(holder, name, made(getattr(holder, name)))


def _tried_in(
    outside: ThreadPoolExecutor, thread: int, process: int, operation: Callable[..., Any]
) -> Callable[..., Any]:
    """Return an operation that is tried once more in a thread that may write outside.

    A process that is forked has no such thread.
    """

    @functools.wraps(operation)
    def tried(*arguments: Any, **keywords: Any) -> Any:
        try:
            return operation(*arguments, **keywords)
        except OSError as error:
            is_kept = error.errno in {errno.EACCES, errno.EXDEV} and os.getpid() == process
            if not is_kept or threading.get_ident() == thread:
                raise
        return outside.submit(operation, *arguments, **keywords).result()

    return tried


def _from(folder: Any, path: Any) -> Any:
    """Return a path that starts from an open folder, where one is given, as one from the root."""
    if not isinstance(folder, int) or folder < 0 or isinstance(path, int):
        return path
    try:
        return os.path.join(os.readlink(f"/proc/self/fd/{folder}"), os.fsdecode(path))
    except OSError:  # no such system: names are taken as they are
        return path


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(os.path.join(folder, ""))
