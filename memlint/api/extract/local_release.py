"""The table of one installed release: a program, run by ``memlint.api.installed``.

Arguments: package, version, the folder of its modules, the folder to write into. Files are read as
text, never imported; links out of the folder are not followed. A process of its own, because the
files are whatever somebody's environment holds: it is killed when it takes too long, and memory is
limited where the system can do that.
"""

import os
import sys
import tempfile
from collections.abc import Callable
from functools import partial

from memlint.api.extract.build import SCOPES, read_release
from memlint.api.extract.tabulate import encode
from memlint.api.extract.wheel import Wheel
from memlint.source.bounded import read_regular

_MOST_FILES = 20_000
_LARGEST_FILE = 4 << 20
_MOST_BYTES = 256 << 20
_MEMORY = 4 << 30


def main(arguments: list[str]) -> int:
    """Exit status: 0 where the tables were written."""
    package, version, folder, out = arguments
    _limit_memory()
    write(package, version, folder, out)
    return 0


def write(package: str, version: str, folder: str, out: str) -> None:
    """Write the tables of ``version`` as the folder ``out``, which appears as a whole or not.

    Raises ValueError for more files than any release has, OSError where one cannot be read.
    """
    tables = encode(
        package, [version], ["9999-12-31"], [read_release(_opened(package, version, folder))]
    )
    os.makedirs(os.path.dirname(out), exist_ok=True)
    scratch = tempfile.mkdtemp(dir=os.path.dirname(out), prefix=".new-")
    for name, data in tables.items():
        with open(os.path.join(scratch, name), "wb") as file:
            file.write(data)
    try:
        os.rename(scratch, out)
    except OSError:
        # Another process was faster; what it wrote is the same.
        for name in tables:
            os.unlink(os.path.join(scratch, name))
        os.rmdir(scratch)


def _opened(package: str, version: str, folder: str) -> Wheel:
    scope = SCOPES[package]
    files: dict[str, Callable[[], bytes]] = {}
    left = [_MOST_BYTES]
    for place, _, names in os.walk(folder):
        below = os.path.relpath(place, folder).replace(os.sep, "/")
        prefix = package if below == "." else f"{package}/{below}"
        for name in names:
            if name.endswith(".py"):
                files[f"{prefix}/{name}"] = partial(_read, os.path.join(place, name), left)
        if len(files) > _MOST_FILES:
            raise ValueError(f"{folder} holds more than {_MOST_FILES:,} modules")
    if f"{package}/__init__.py" not in files:
        raise ValueError(f"{folder} is no package")
    return Wheel.of_files(package, version, files, scope.keep, scope.outline)


def _read(path: str, left: list[int]) -> bytes:
    data = read_regular(path, _LARGEST_FILE)
    left[0] -= len(data)
    if left[0] < 0:
        raise ValueError(f"the modules hold more than {_MOST_BYTES:,} bytes")
    return data


def _limit_memory() -> None:
    try:
        import resource
    except ImportError:  # Windows
        return
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
