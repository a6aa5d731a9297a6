"""Tables of releases that the shipped ones do not reach, from the files that the user has.

Read once a release by ``memlint.api.extract.local_release`` (some seconds, transformers half a
minute), then kept in the user's own cache folder, never in the repository's. The key holds what the
files are: the checksums that the installer wrote down, else every file's size and time.

Nothing here raises: where files cannot be read, the newest release known takes their place, and the
target says so.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys

import memlint
from memlint.api.extended import read_added
from memlint.source.bounded import read_regular
from memlint.source.user_cache import cache_folder

_SECONDS = 240
_KEPT = 12
# Raised when tables are encoded in another way.
_FORMAT = 1
_NAME = r"[a-z]+-[\w.+!-]{1,80}-[0-9a-f]{24}"
_RECORD_LIMIT = 32 << 20


def tables_of(package: str, version: str, metadata: str) -> str | None:
    """The tables of an installed release (``metadata``: its ``dist-info``), if it can be read."""
    folder = os.path.join(os.path.dirname(metadata), package)
    try:
        if os.path.isfile(os.path.join(folder, "__init__.py")):
            state = read_regular(os.path.join(metadata, "RECORD"), _RECORD_LIMIT)
        else:
            folder = _editable(package, metadata)
            state = _state_of(folder)
        return _cached(package, version, folder, state)
    except (OSError, ValueError, subprocess.SubprocessError):
        return None


def tables_of_source(package: str, version: str, root: str) -> str | None:
    """Return the tables of a library's source tree."""
    try:
        folder = _package_in(package, root)
        return _cached(package, version, folder, _state_of(folder))
    except (OSError, ValueError, subprocess.SubprocessError):
        return None


def _cached(package: str, version: str, folder: str, state: bytes) -> str | None:
    home = cache_folder(os.environ)
    if home is None:
        return None
    key = f"{_FORMAT} {memlint.__version__} {package} {version} {os.path.realpath(folder)} "
    digest = hashlib.sha256(key.encode("utf-8", "surrogateescape") + state).hexdigest()[:24]
    tables = os.path.join(home, "tables")
    out = os.path.join(tables, f"{package}-{version}-{digest}")
    if os.path.isdir(out):
        if read_added(package, out) is not None:
            return out
        if not os.listdir(out):
            return None  # it could not be read before
        shutil.rmtree(out)
    _drop_old(tables)
    _extract(package, version, folder, out)
    if read_added(package, out) is None:
        # Remembered as an empty folder: it would fail again.
        os.makedirs(out, exist_ok=True)
        return None
    return out


def _extract(package: str, version: str, folder: str, out: str) -> None:
    root = os.path.dirname(os.path.dirname(os.path.abspath(memlint.__file__)))
    program = (
        "import sys; sys.path.insert(0, sys.argv.pop(1));"
        "from memlint.api.extract.local_release import main; sys.exit(main(sys.argv[1:]))"
    )
    subprocess.run(
        (sys.executable, "-I", "-S", "-c", program, root, package, version, folder, out),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=_SECONDS,
        check=False,
    )


def _editable(package: str, metadata: str) -> str:
    """Return the package's folder, where the metadata says that it was installed from there."""
    import json
    from urllib.parse import unquote, urlsplit

    text = read_regular(os.path.join(metadata, "direct_url.json"), 65536).decode("utf-8")
    address = urlsplit(json.loads(text)["url"])
    if address.scheme != "file":
        raise ValueError("installed from elsewhere")
    return _package_in(package, unquote(address.path))


def _package_in(package: str, root: str) -> str:
    for folder in (os.path.join(root, "src", package), os.path.join(root, package)):
        if os.path.isfile(os.path.join(folder, "__init__.py")):
            return folder
    raise ValueError(f"no {package} in {root}")


def _state_of(folder: str) -> bytes:
    """Name, size and time of every module."""
    digest = hashlib.sha256()
    for place, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            if name.endswith(".py"):
                path = os.path.join(place, name)
                status = os.stat(path)
                line = f"{path} {status.st_size} {status.st_mtime_ns}\n"
                digest.update(line.encode("utf-8", "surrogateescape"))
    return digest.digest()


def _drop_old(tables: str) -> None:
    """Keep the newest few; only folders of our own naming are removed."""
    try:
        found = [
            (entry.stat(follow_symlinks=False).st_mtime, entry.path)
            for entry in os.scandir(tables)
            if re.fullmatch(_NAME, entry.name) and entry.is_dir(follow_symlinks=False)
        ]
    except OSError:
        return
    for _, path in sorted(found, reverse=True)[_KEPT:]:
        shutil.rmtree(path, ignore_errors=True)
