"""Which releases are read, and how their wheels are fetched.

``releases.json`` lists the last patch of every minor release from the oldest that scripts still
use, each with the SHA-256 of its wheel, or of its source distribution where it has none: the same
files give the same tables. torch is read from
its macOS wheels, whose Python modules are those of every platform at a tenth of the download.
"""

import hashlib
import json
import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from memlint.api.versions import parse_version

FLOORS: Mapping[str, tuple[int, int]] = {
    "trl": (0, 7),
    "transformers": (4, 36),
    "peft": (0, 7),
    "accelerate": (0, 25),
    "datasets": (2, 14),
    "torch": (2, 1),
    "torchtune": (0, 1),
    "llamafactory": (0, 7),
    "axolotl": (0, 5),
}
# Their keys change from patch to patch.
_EVERY_PATCH = frozenset({"llamafactory"})
# Their older releases have no wheel.
_SOURCES = frozenset({"axolotl"})

_LIST = Path(__file__).with_name("releases.json")

_ANY_PLATFORM = ("--python-version", "3.11")
_MACOS = (
    *("--platform", "macosx_11_0_arm64", "--platform", "macosx_14_0_arm64"),
    *("--python-version", "3.11", "--implementation", "cp", "--abi", "cp311", "--abi", "none"),
)


def releases() -> dict[str, dict[str, str]]:
    """Package -> version -> SHA-256 of the wheel, oldest first."""
    listed: dict[str, dict[str, str]] = json.loads(_LIST.read_text(encoding="utf-8"))
    return listed


def fetch(package: str, version: str, folder: Path) -> Path:
    """Return the wheel in ``folder``, downloaded with pip if it is not there.

    Raises RuntimeError where pip fails, or brings another wheel than the one listed.
    """
    home = folder / package
    wheel = _wheel(home, package, version)
    if wheel is None:
        home.mkdir(parents=True, exist_ok=True)
        platform = _MACOS if package == "torch" else _ANY_PLATFORM
        command = (
            *(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"),
            *("--dest", str(home), f"{package}=={version}"),
        )
        binary = ("--only-binary=:all:", *platform)
        done = subprocess.run((*command, *binary), capture_output=True, text=True, check=False)
        if done.returncode and package in _SOURCES:
            source = (*command, "--no-binary=:all:")
            done = subprocess.run(source, capture_output=True, text=True, check=False)
        wheel = _wheel(home, package, version)
        if wheel is None:
            raise RuntimeError(f"pip could not download {package} {version}:\n{done.stderr}")
    expected = releases().get(package, {}).get(version)
    if expected is not None and expected != (found := digest(wheel)):
        raise RuntimeError(
            f"{wheel.name} is not the wheel that the tables were made from: "
            f"expected SHA-256 {expected}, got {found}"
        )
    return wheel


def update(folder: Path) -> dict[str, dict[str, str]]:
    """List the last patch of every minor release that pip offers, and write ``releases.json``."""
    listed: dict[str, dict[str, str]] = {}
    for package, floor in FLOORS.items():
        last: dict[tuple[int, ...], str] = {}
        for version in _offered(package):
            minor = parse_version(version).minor
            if minor < floor:
                continue
            own = parse_version(version).numbers if package in _EVERY_PATCH else minor
            if own not in last or parse_version(version) > parse_version(last[own]):
                last[own] = version
        listed[package] = {
            last[own]: digest(fetch(package, last[own], folder)) for own in sorted(last)
        }
    _LIST.write_text(json.dumps(listed, indent=1) + "\n", encoding="utf-8")
    return listed


def released(wheel: Path) -> str:
    """Return the day on which the wheel was packed (``2026-10-15``): that of its newest member."""
    if wheel.suffix != ".whl":
        with tarfile.open(wheel) as tar:
            newest = max(member.mtime for member in tar)
        return datetime.fromtimestamp(newest, UTC).date().isoformat()
    with zipfile.ZipFile(wheel) as archive:
        year, month, day = max(member.date_time[:3] for member in archive.infolist())
    return f"{year:04}-{month:02}-{day:02}"


def digest(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _wheel(home: Path, package: str, version: str) -> Path | None:
    wheels = sorted(home.glob(f"{package}-{version}-*.whl"))
    return next(iter((*wheels, *home.glob(f"{package}-{version}.tar.gz"))), None)


def _offered(package: str) -> list[str]:
    """Final releases that pip knows of."""
    command = (sys.executable, "-m", "pip", "index", "versions", package)
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    match = re.search(r"Available versions: (.*)", done.stdout)
    if match is None:
        raise RuntimeError(f"pip lists no versions of {package}")
    return [text for text in match[1].split(", ") if re.fullmatch(r"\d+\.\d+\.\d+", text)]
