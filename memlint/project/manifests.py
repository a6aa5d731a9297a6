"""What a project's own files say of the libraries' versions, read with patterns.

Lock files, requirement files, ``environment.yml``, ``pyproject.toml``, ``setup.cfg`` and
``setup.py``. Patterns instead of parsers: a file that is broken elsewhere still tells its pins,
and nothing is imported that a check of one small script would have to pay for. The patterns are
compiled when a file is there to read with them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase

from memlint.api.tables import PACKAGES
from memlint.api.versions import parse_version

# A lock file of a large project has some two megabytes; anything far above is not one.
_LARGEST_BYTES = 16_000_000

_NAME = rf"(?P<name>{'|'.join(PACKAGES)}|pytorch)"
_EXTRAS = r"(?:\s*\[[^\]\n]*\])?"
_SPECIFIER = r"(?P<specifier>(?:===|==|~=|!=|<=|>=|<|>)[^;#\"'\n\\]*)"
_FROM_GIT = r"@\s*\S*?@v?(?P<tag>\d+\.\d+(?:\.\d+)?)\S*"

_LOCKED = (
    rf"(?m)^name\s*=\s*[\"']{_NAME}[\"']\s*\n(?:[^\[\n].*\n)*?"
    r"version\s*=\s*[\"'](?P<version>[^\"']+)"
)
_PIPENV = (
    rf"[\"']{_NAME}[\"']\s*:\s*\{{[^{{}}]*?[\"']version[\"']\s*:\s*[\"']==(?P<version>[^\"']+)"
)
_REQUIREMENT = rf"(?mi)^[ \t]*{_NAME}(?![\w.-]){_EXTRAS}[ \t]*(?:\(?{_SPECIFIER}|{_FROM_GIT})"
_INCLUDED = r"(?m)^[ \t]*(?:-r|--requirement|-c|--constraint)[ =]*(?P<path>[^\s#]+)"
_QUOTED = rf"(?i)[\"']\s*{_NAME}(?![\w.-]){_EXTRAS}[ \t]*(?:\(?{_SPECIFIER}|{_FROM_GIT})"
_CONDA = (
    rf"(?mi)^[ \t]*-[ \t]*[\"']?(?:[\w./-]+::)?{_NAME}(?![\w.-]){_EXTRAS}[ \t]*"
    r"(?P<specifier>(?:===|==|~=|!=|<=|>=|<|>|=)[^#\"'\n]*)"
)
_SECTION = r"(?m)^\[(?P<name>[^\[\]\n]+)\][ \t]*(?:#.*)?$"
_POETRY = (
    rf"(?mi)^{_NAME}\s*=\s*(?:[\"'](?P<specifier>[^\"']+)[\"']"
    r"|\{[^}\n]*?version\s*=\s*[\"'](?P<inner>[^\"']+)[\"'])"
)

Declared = Mapping[str, str]
"""Package -> specifier, as it is written."""


def declared(path: str) -> Declared:
    """The versions that the file at ``path`` asks for; empty where it cannot be read."""
    for pattern, _, reader in _MANIFESTS:
        if fnmatchcase(os.path.basename(path), pattern):
            text = text_of(path)
            return reader(text, path) if text else {}
    return {}


def manifests(names: list[str]) -> list[str]:
    """Those of a folder's file names that are manifests, the more exact kinds first."""
    found: list[tuple[int, str]] = []
    for name in names:
        if name.endswith(_SUFFIXES) or name == "setup.py":
            rank = _rank(name)
            if rank is not None:
                found.append((rank, name))
    return [name for _, name in sorted(found)]


def _rank(name: str) -> int | None:
    for pattern, rank, _ in _MANIFESTS:
        if fnmatchcase(name, pattern):
            return rank
    return None


def text_of(path: str) -> str:
    """What the file says; nothing where it cannot be read or is too large to be a manifest."""
    try:
        if os.path.getsize(path) > _LARGEST_BYTES:
            return ""
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _locked(text: str, path: str) -> Declared:
    found: dict[str, str] = {}
    pattern = _PIPENV if os.path.basename(path) == "Pipfile.lock" else _LOCKED
    for match in re.finditer(pattern, text):
        name, version = match["name"], match["version"]
        # One lock file may hold a version for each platform: the highest is meant.
        if name not in found or parse_version(version) > parse_version(found[name][2:]):
            found[name] = f"=={version}"
    return found


def _requirements(text: str, path: str, depth: int = 3) -> Declared:
    found = _collected(_REQUIREMENT, text)
    if depth:
        for match in re.finditer(_INCLUDED, text):
            other = os.path.join(os.path.dirname(path), match["path"])
            for name, specifier in _requirements(text_of(other), other, depth - 1).items():
                found.setdefault(name, specifier)
    return found


def _conda(text: str, path: str) -> Declared:
    found = _collected(_CONDA, text)
    # `transformers=4.36.2=py311_0` ends in a build number.
    return {name: re.sub(r"(?<=[\w*])=[\w.*]+$", "", text) for name, text in found.items()}


def _quoted(text: str, path: str) -> Declared:
    return _collected(_QUOTED, text)


def _pyproject(text: str, path: str) -> Declared:
    found: dict[str, str] = {}
    # [what stands before any section, name, body, name, body, ...]
    parts = re.split(_SECTION, text)
    for name, body in zip(parts[1::2], parts[2::2], strict=True):
        name = name.strip()
        if name.startswith("tool.poetry") and name.endswith("dependencies"):
            for line in re.finditer(_POETRY, body):
                specifier = line["specifier"] or line["inner"]
                # A bare number means "compatible with" there.
                found.setdefault(
                    _known(line["name"]), f"^{specifier}" if specifier[0].isdigit() else specifier
                )
        elif not name.startswith("tool.memlint"):
            for package, specifier in _collected(_QUOTED, body).items():
                found.setdefault(package, specifier)
    return found


def _collected(pattern: str, text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for match in re.finditer(pattern, text):
        groups = match.groupdict()
        specifier = groups.get("specifier") or f"=={groups['tag']}"
        specifier = re.split(r"\s--|\s@\s|\)", specifier)[0]
        found.setdefault(_known(match["name"]), specifier.strip().rstrip(",").strip())
    return found


def _known(name: str) -> str:
    name = name.lower()
    return "torch" if name == "pytorch" else name


_Reader = Callable[[str, str], Declared]

_MANIFESTS: tuple[tuple[str, int, _Reader], ...] = (
    ("uv.lock", 0, _locked),
    ("poetry.lock", 0, _locked),
    ("pdm.lock", 0, _locked),
    ("pylock*.toml", 0, _locked),
    ("Pipfile.lock", 0, _locked),
    ("requirements.txt", 1, _requirements),
    ("requirements*.txt", 2, _requirements),
    ("*requirements.txt", 2, _requirements),
    ("environment*.yml", 3, _conda),
    ("environment*.yaml", 3, _conda),
    ("conda*.yml", 3, _conda),
    ("conda*.yaml", 3, _conda),
    ("pyproject.toml", 4, _pyproject),
    ("setup.cfg", 5, _requirements),
    ("setup.py", 6, _quoted),
)
# Most files of a folder are none: told by their names' ends.
_SUFFIXES = (".lock", ".toml", ".txt", ".yml", ".yaml", ".cfg")
