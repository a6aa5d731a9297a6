"""Results of the last run, kept by content: what did not change is not checked again.

A result holds as long as the file's bytes, the rules asked, the target versions, the sources of the
rules and of memlint, and the API tables are the same. All of it goes into the key; times of files
do not, since checkouts and caches of CI change them. The folder ignores itself for git.

JSON, not pickle: the folder may come with somebody's repository, and reading it must run nothing.
Cost: 1,200 files are looked up in some 40 ms, most of which is reading and hashing them.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import memlint
from memlint.run.results import FileResult

if TYPE_CHECKING:
    from hashlib import blake2b
else:
    try:
        from _blake2 import blake2b  # hashlib's own, without loading OpenSSL for it (3 ms)
    except ImportError:
        from hashlib import blake2b

FOLDER = ".memlint_cache"
_KEPT_FILES = 8


class Cache:
    """Entries of one state of memlint, read when made and written by ``save``.

    A cache that cannot be read is empty, and one that cannot be written is not: neither is an
    error, since nothing but time is lost.
    """

    def __init__(self, root: str) -> None:
        self._folder = os.path.join(root, FOLDER)
        self._file = os.path.join(self._folder, f"{memlint.__version__}-{fingerprint()}.json")
        self._entries = _load(self._file)
        self._changed = False

    @staticmethod
    def key(data: bytes, conditions: bytes) -> str:
        """``conditions``: all that the result depends on besides the bytes and memlint itself."""
        return blake2b(data, digest_size=16, key=conditions).hexdigest()

    @staticmethod
    def conditions(codes: frozenset[str], named: bool) -> bytes:
        text = f"{sorted(codes)} {named}"
        return blake2b(text.encode(), digest_size=32).digest()

    def get(
        self, path: str, shown: str, key: str, rendered: bool, target: Callable[[], str]
    ) -> FileResult | None:
        """The result for ``path`` (absolute) under this key, naming the file ``shown``.

        target: the versions that it would be checked for; asked only where they matter.
        """
        entry = self._entries.get(path)
        if entry is None or entry[0] != key:
            return None
        if len(entry) == 1:
            return FileResult(shown)
        if entry[1] != target() or (rendered and not entry[2] and len(entry) == 4):
            return None
        try:
            return FileResult.from_json(shown, entry[3]) if len(entry) == 4 else FileResult(shown)
        except (TypeError, ValueError):
            return None

    def put(
        self, path: str, key: str, rendered: bool, target: str | None, result: FileResult
    ) -> None:
        """Keep a result. ``target`` of None: no rule was asked, whatever the versions."""
        if target is None and not result.findings and not result.diagnostics:
            entry: list[Any] = [key]
        else:
            entry = [key, target or "", rendered]
            if result.findings or result.diagnostics:
                entry.append(result.to_json())
        self._entries[path] = entry
        self._changed = True

    def save(self) -> None:
        """Write what changed; entries of files that are gone are dropped."""
        if not self._changed:
            return
        import json

        kept = {path: entry for path, entry in self._entries.items() if os.path.exists(path)}
        temporary = f"{self._file}.{os.getpid()}"
        try:
            os.makedirs(self._folder, exist_ok=True)
            note = os.path.join(self._folder, ".gitignore")
            if not os.path.exists(note):
                with open(note, "w", encoding="utf-8") as file:
                    file.write("# Made by memlint; may be deleted at any time.\n*\n")
            with open(temporary, "w", encoding="utf-8") as file:
                file.write(json.dumps(kept, separators=(",", ":")))
            os.replace(temporary, self._file)
            self._drop_old_files()
        except OSError:
            return

    def _drop_old_files(self) -> None:
        files = [entry for entry in os.scandir(self._folder) if entry.name != ".gitignore"]
        files.sort(key=lambda entry: entry.stat().st_mtime, reverse=True)
        for entry in files[_KEPT_FILES:]:
            os.unlink(entry.path)


def fingerprint() -> str:
    """Of everything that decides what is found, besides scripts and configuration.

    Sources by content; data files by name, size and time, since the tables are large.
    """
    from memlint.rule.registry import rules_folder

    digest = blake2b(digest_size=8)
    for folder in (os.path.dirname(memlint.__file__), rules_folder()):
        _add_folder(digest, folder)
    return digest.hexdigest()


def _add_folder(digest: blake2b, folder: str) -> None:
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        if entry.name.endswith(".py"):
            digest.update(entry.name.encode())
            with open(entry.path, "rb") as file:
                digest.update(file.read())
        elif entry.is_dir():
            if entry.name != "__pycache__":
                _add_folder(digest, entry.path)
        else:
            status = entry.stat()
            digest.update(f"{entry.name} {status.st_size} {status.st_mtime_ns}".encode())


def _load(path: str) -> dict[str, list[Any]]:
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except OSError:
        return {}
    import json

    try:
        value = json.loads(text)
    except ValueError:
        return {}
    if not isinstance(value, dict):
        return {}
    return {
        path: entry
        for path, entry in value.items()
        if isinstance(entry, list) and len(entry) in (1, 3, 4)
    }
