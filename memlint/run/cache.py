"""Results of the last run, kept by content: what did not change is not checked again.

A result holds as long as the file's bytes, the rules asked, the target versions, the sources of the
rules and of memlint, and the API tables are the same. All of it goes into the key; times of files
do not, since checkouts and caches of CI change them: they only say that memlint's own files are
those whose digest is known. Of other files that a result relied on, the
digests are kept with it. The folder ignores itself for git.

The folder may come with somebody's repository. So it is JSON, not pickle: reading it runs nothing.
It is signed with a secret of the user's, which lies in the user's own folder of caches
(``memlint.source.user_cache``): what another has made, or changed, is no cache, and cannot silence
a finding. Where the secret is not kept from run to run, as in a fresh container, nothing is known.
A folder that is a link is not used, only files of our own naming are deleted, and files are made
new: no link in the folder leads a write elsewhere.
Cost: 1,200 files are looked up in some 40 ms, most of which is reading and hashing them.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import memlint
from memlint.run.results import FileResult
from memlint.source.bounded import parse_json, read_regular
from memlint.source.digests import digest_of
from memlint.source.kept import kept
from memlint.source.user_cache import secret

if TYPE_CHECKING:
    from hashlib import blake2b

    from memlint.rule.savings import Pricing
else:
    try:
        from _blake2 import blake2b  # hashlib's own, without loading OpenSSL for it (3 ms)
    except ImportError:
        from hashlib import blake2b

FOLDER = ".memlint_cache"
INSTALLATIONS = "installations"
_KEPT_FILES = 8
_MAX_BYTES = 256 << 20
# Seconds after which a file that is changed again has another time, on any file system.
_SETTLED = 5.0
# ``0.1.0-0123456789abcdef.json``, and the same with a process id while it is written.
_OWN_NAME = r"\d[\w.+-]*-[0-9a-f]{16}\.json(\.\d+)?"
_NEW = (
    os.O_WRONLY | os.O_CREAT | os.O_EXCL
    | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
)  # fmt: skip


class Cache:
    """Entries of one state of memlint, read when made and written by ``save``.

    A cache that cannot be read is empty, and one that cannot be written is not: neither is an
    error, since nothing but time is lost.
    """

    def __init__(self, root: str) -> None:
        self._folder = os.path.join(root, FOLDER)
        self._secret = secret(root)
        self._installations = Installations(os.path.join(self._folder, INSTALLATIONS), self._secret)
        state = self._installations.fingerprint()
        self._file = os.path.join(self._folder, f"{memlint.__version__}-{state}.json")
        self._entries = _load(self._file, self._secret)
        self._changed = False

    @staticmethod
    def key(data: bytes, conditions: bytes) -> str:
        """``conditions``: all that the result depends on besides the bytes and memlint itself."""
        return blake2b(data, digest_size=16, key=conditions).hexdigest()

    @staticmethod
    def conditions(
        codes: frozenset[str],
        by_code: frozenset[str],
        named: bool,
        runtime: bool,
        pricing: Pricing | None = None,
        in_tests: frozenset[str] | None = None,
    ) -> bytes:
        priced = None if pricing is None else tuple(pricing)
        tests = None if in_tests is None else sorted(in_tests & codes)
        text = f"{sorted(codes)} {sorted(by_code & codes)} {named} {runtime} {priced} {tests}"
        return blake2b(text.encode(), digest_size=32).digest()

    def get(
        self, path: str, shown: str, key: str, with_fixes: bool, target: Callable[[], str]
    ) -> FileResult | None:
        """The result for ``path`` (absolute) under this key, naming the file ``shown``.

        target: the versions that it would be checked for; asked only where they matter.
        """
        entry = self._entries.get(path)
        if entry is None or entry[0] != key:
            return None
        if len(entry) == 1:
            return FileResult(shown)
        if entry[1] != target() or (with_fixes and not entry[2] and len(entry) == 4):
            return None
        try:
            found = FileResult.from_json(shown, entry[3]) if len(entry) == 4 else FileResult(shown)
        except (TypeError, ValueError, AttributeError, LookupError):
            return None
        same = all(self._digest(other) == digest for other, digest in found.relied_on)
        return found if same else None

    @kept
    def _digest(self, path: str) -> str:
        """A file's digest, taken once: many results rely on the same files."""
        return digest_of(path)

    def put(
        self, path: str, key: str, with_fixes: bool, target: str | None, result: FileResult
    ) -> None:
        """Keep a result. ``target`` of None: no rule was asked, whatever the versions."""
        if target is None and not result.findings and not result.diagnostics:
            entry: list[Any] = [key]
        else:
            entry = [key, target or "", with_fixes]
            if result.findings or result.diagnostics or result.assumed or result.relied_on:
                entry.append(result.to_json())
        self._entries[path] = entry
        self._changed = True

    def save(self) -> None:
        """Write what changed; entries of files that are gone are dropped."""
        if self._secret is None or not (self._changed or self._installations.changed):
            return
        try:
            if not _is_usable(self._folder, make=True):
                return
            note = os.path.join(self._folder, ".gitignore")
            with contextlib.suppress(FileExistsError):
                _write_new(note, b"# Made by memlint; may be deleted at any time.\n*\n")
            if self._installations.changed:
                self._installations.save(self._secret)
            if self._changed:
                kept = {path: each for path, each in self._entries.items() if os.path.exists(path)}
                _replace(self._file, kept, self._secret)
                self._drop_old_files()
        except OSError:
            return

    def _drop_old_files(self) -> None:
        files = [
            (entry.stat(follow_symlinks=False).st_mtime, entry.path)
            for entry in os.scandir(self._folder)
            if re.fullmatch(_OWN_NAME, entry.name) and entry.is_file(follow_symlinks=False)
        ]
        for _, path in sorted(files, reverse=True)[_KEPT_FILES:]:
            os.unlink(path)


def _is_usable(folder: str, *, make: bool = False) -> bool:
    """True if ``folder`` is a folder itself and no link to one; ``make``: it may be made."""
    try:
        return stat.S_ISDIR(os.lstat(folder).st_mode)
    except FileNotFoundError:
        if make:
            os.mkdir(folder)
        return make
    except OSError:
        return False


def _replace(path: str, value: object, key: bytes) -> None:
    import json

    temporary = f"{path}.{os.getpid()}"
    data = json.dumps(value, separators=(",", ":")).encode()
    _write_new(temporary, _signature(path, data, key) + data)
    os.replace(temporary, path)


def _signature(path: str, data: bytes, key: bytes) -> bytes:
    """A line that only who has the key can write, for this content under this name."""
    name = os.path.basename(path).encode()
    return blake2b(name + b"\0" + data, digest_size=32, key=key).hexdigest().encode() + b"\n"


def _write_new(path: str, data: bytes) -> None:
    """Make a file that was not there; raises OSError where anything, or a link, has the name."""
    file = os.open(path, _NEW, 0o666)
    with os.fdopen(file, "wb") as stream:
        stream.write(data)


def fingerprint() -> str:
    """Of everything that decides what is found, besides scripts and configuration.

    By content, so that two installations of one version share a cache, as in CI.
    """
    digest = blake2b(digest_size=8)
    for _, entry in _own_files():
        data = read_regular(entry.path)
        digest.update(f"{entry.name} {len(data)} ".encode())
        digest.update(data)
    return digest.hexdigest()


def _own_files() -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Yield the files of memlint and of its rules, each with its folder."""
    from memlint.rule.registry import rules_folder

    folders = [os.path.dirname(memlint.__file__), rules_folder()]
    for folder in folders:  # grows meanwhile
        for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
            if not entry.is_dir():
                yield folder, entry
            elif entry.name != "__pycache__":
                folders.append(entry.path)


class Installations:
    """The fingerprints of installations whose files are as they were, in a file of the cache.

    Reading all files of memlint takes a fifth of a run that finds nothing changed. So a fingerprint
    is known again by the sizes and times of all files: these say that nothing was touched, never
    that two installations differ.
    """

    def __init__(self, path: str, key: bytes | None) -> None:
        self._path = path
        self._known = _read_object(path, key)
        self.changed = False

    def fingerprint(self) -> str:
        """That of this installation."""
        stamp, newest = _stamp()
        known = self._known.get(stamp)
        if isinstance(known, str) and re.fullmatch(r"[0-9a-f]{16}", known):
            return known
        found = fingerprint()
        if time.time() - newest > _SETTLED:
            kept = [pair for pair in self._known.items() if isinstance(pair[1], str)]
            self._known = dict([*kept[1 - _KEPT_FILES :], (stamp, found)])
            self.changed = True
        return found

    def save(self, key: bytes) -> None:
        _replace(self._path, self._known, key)


def _stamp() -> tuple[str, float]:
    """What the files of this installation are known again by, and when the last was changed."""
    digest = blake2b(digest_size=16)
    newest = 0
    for folder, entry in _own_files():
        known = entry.stat()
        changed = max(known.st_mtime_ns, known.st_ctime_ns)
        newest = max(newest, changed)
        digest.update(os.fsencode(folder) + f"{entry.name} {known.st_size} {changed} ".encode())
    return digest.hexdigest(), newest / 1e9


def _load(path: str, key: bytes | None) -> dict[str, list[Any]]:
    return {
        path: entry
        for path, entry in _read_object(path, key).items()
        if isinstance(entry, list) and len(entry) in (1, 3, 4)
    }


def _read_object(path: str, key: bytes | None) -> dict[str, Any]:
    """The JSON object in a file of the cache; empty where there is none, or another signed it."""
    if key is None:
        return {}
    try:
        if not _is_usable(os.path.dirname(path)) or os.path.islink(path):
            return {}
        data = read_regular(path, _MAX_BYTES)
    except OSError:
        return {}
    signature, _, content = data.partition(b"\n")
    if signature + b"\n" != _signature(path, content, key):
        return {}
    try:
        value = parse_json(content)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
