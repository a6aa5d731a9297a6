"""A folder that looks like the user's and takes what a run writes, so that theirs stays as it is.

Folders are real; code and small files are copied (whatever writes them writes the copy), large ones
are links. One of these that is opened to be written is copied first. What a run would write into
the user's folder by its absolute path is refused, and so is what would change or remove older files
elsewhere, but for caches: that is an audit hook of Python's, which sees ``open``, ``os``,
``shutil`` and ``sqlite3``; torch's and safetensors' own writers are guarded besides.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

_MOST_ENTRIES = 20_000
_SMALL, _MOST_BYTES = 16 << 20, 256 << 20  # a file that is copied, and all of them
_LEFT_OUT = frozenset({".git", ".hg", "__pycache__", ".venv", "venv", "node_modules", "wandb"})
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
# Events of Python's audit hooks: which of their arguments are paths that change, and which are
# the open folders that these start from.
_CHANGES = {
    "os.mkdir": ((0, 2),), "os.rmdir": ((0, 1),), "os.remove": ((0, 1),),
    "os.rename": ((0, 2), (1, 3)), "os.truncate": ((0, None),), "os.link": ((1, 3),),
    "os.symlink": ((1, 2),), "os.chmod": ((0, 2),), "os.chown": ((0, 3),), "os.utime": ((0, 3),),
    "os.setxattr": ((0, None),), "sqlite3.connect": ((0, None),), "shutil.rmtree": ((0, None),),
}  # fmt: skip
# These change what a link leads to.
_FOLLOWING = frozenset(
    {"os.truncate", "os.chmod", "os.chown", "os.utime", "os.setxattr", "sqlite3.connect"}
)
# What programs keep for themselves, beside hidden folders of the user and caches by their names.
_FREE = ("/dev/", "/proc/", "/run/", "/sys/", "/tmp/", "/var/tmp/")


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
        self._began = time.time()
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
                inside = self.copy.startswith(os.path.join(entry.path, ""))
                holds = any(path.startswith(os.path.join(entry.path, "")) for path in self._texts)
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
        if absolute == self.folder or absolute.startswith(os.path.join(self.folder, "")):
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
            if self._is_theirs(target) and os.path.isfile(target):
                os.unlink(name)
                shutil.copy2(target, name)
        real = name if whole else os.path.realpath(name)
        if self._is_theirs(real) or self._was_there(real):
            raise PermissionError(
                f"{name}: left as it is: a run that is compared writes nothing here"
            )

    def _is_theirs(self, path: str) -> bool:
        return path == self.folder or path.startswith(os.path.join(self.folder, ""))

    def _was_there(self, path: str) -> bool:
        """True of files and folders that are older than the run, and that no cache holds."""
        caches = [os.environ[name] for name in os.environ if name.endswith(("_CACHE", "_HOME"))]
        own = (os.path.dirname(self.copy), sys.prefix, os.path.expanduser("~/."), *_FREE)
        is_free = path.startswith((*own, *filter(None, caches)))
        is_old = os.path.exists(path) and os.path.getctime(path) < self._began
        return is_old and not is_free and os.path.getsize(path) > 0

    def guard(self) -> None:
        """Watch this process from now on."""
        busy = False

        def hook(event: str, arguments: tuple[Any, ...]) -> None:
            nonlocal busy
            if busy or (event != "open" and event not in _CHANGES):
                return
            busy = True
            try:
                if event == "open":
                    path, mode, flags = arguments
                    if (isinstance(flags, int) and flags & _WRITES) or set(mode or "") & set(
                        "wax+"
                    ):
                        self.before_change(path)
                else:
                    for index, folder in _CHANGES[event]:
                        start = None if folder is None else arguments[folder]
                        whole = event not in _FOLLOWING
                        self.before_change(_from(start, arguments[index]), whole=whole)
            finally:
                busy = False

        sys.addaudithook(hook)

    def guard_writers(self) -> None:
        """Watch the writers of torch and safetensors, which open files on their own."""
        import torch

        torch.save = self._guarded(torch.save)
        with contextlib.suppress(ImportError):
            import safetensors.torch

            safetensors.torch.save_file = self._guarded(safetensors.torch.save_file)
            safetensors.torch.save_model = self._guarded(safetensors.torch.save_model)

    def _guarded(self, write: Callable[..., Any]) -> Callable[..., Any]:
        def guarded(*arguments: Any, **keywords: Any) -> Any:
            path = arguments[1] if len(arguments) > 1 else None
            path = keywords.get("f", keywords.get("filename", path))
            if isinstance(path, str | bytes | os.PathLike):
                self.before_change(path)
            return write(*arguments, **keywords)

        return guarded


def _from(folder: Any, path: Any) -> Any:
    """Return a path that starts from an open folder, where one is given, as one from the root."""
    if not isinstance(folder, int) or folder < 0 or isinstance(path, int):
        return path
    try:
        return os.path.join(os.readlink(f"/proc/self/fd/{folder}"), os.fsdecode(path))
    except OSError:  # no such system: names are taken as they are
        return path
