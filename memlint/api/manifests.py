"""What a project's own files say of the libraries' versions, read with patterns.

Lock files, requirement files, ``environment.yml``, ``pyproject.toml``, ``setup.cfg`` and
``setup.py``. Patterns instead of parsers: a file that is broken elsewhere still tells its pins,
and nothing is imported that a check of one small script would have to pay for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path

from memlint.api.tables import PACKAGES
from memlint.api.versions import parse_version

# A lock file of a large project has some two megabytes; anything far above is not one.
_LARGEST_BYTES = 16_000_000

_NAME = rf"(?P<name>{'|'.join(PACKAGES)}|pytorch)"
_EXTRAS = r"(?:\s*\[[^\]\n]*\])?"
_SPECIFIER = r"(?P<specifier>(?:===|==|~=|!=|<=|>=|<|>)[^;#\"'\n\\]*)"
_FROM_GIT = r"@\s*\S*?@v?(?P<tag>\d+\.\d+(?:\.\d+)?)\S*"

_LOCKED = re.compile(
    rf"^name\s*=\s*[\"']{_NAME}[\"']\s*\n(?:[^\[\n].*\n)*?version\s*=\s*[\"'](?P<version>[^\"']+)",
    re.M,
)
_PIPENV = re.compile(
    rf"[\"']{_NAME}[\"']\s*:\s*\{{[^{{}}]*?[\"']version[\"']\s*:\s*[\"']==(?P<version>[^\"']+)"
)
_REQUIREMENT = re.compile(
    rf"^[ \t]*{_NAME}(?![\w.-]){_EXTRAS}[ \t]*(?:\(?{_SPECIFIER}|{_FROM_GIT})", re.M | re.I
)
_INCLUDED = re.compile(r"^[ \t]*(?:-r|--requirement|-c|--constraint)[ =]*(?P<path>[^\s#]+)", re.M)
_QUOTED = re.compile(
    rf"[\"']\s*{_NAME}(?![\w.-]){_EXTRAS}[ \t]*(?:\(?{_SPECIFIER}|{_FROM_GIT})", re.I
)
_CONDA = re.compile(
    rf"^[ \t]*-[ \t]*[\"']?(?:[\w./-]+::)?{_NAME}(?![\w.-]){_EXTRAS}[ \t]*"
    r"(?P<specifier>(?:===|==|~=|!=|<=|>=|<|>|=)[^#\"'\n]*)",
    re.M | re.I,
)
_SECTION = re.compile(r"^\[(?P<name>[^\[\]\n]+)\][ \t]*(?:#.*)?$", re.M)
_POETRY = re.compile(
    rf"^{_NAME}\s*=\s*(?:[\"'](?P<specifier>[^\"']+)[\"']"
    r"|\{[^}\n]*?version\s*=\s*[\"'](?P<inner>[^\"']+)[\"'])",
    re.M | re.I,
)

Declared = Mapping[str, str]
"""Package -> specifier, as it is written."""


def declared(path: Path) -> Declared:
    """The versions that the file at ``path`` asks for; empty where it cannot be read."""
    for pattern, _, reader in _MANIFESTS:
        if fnmatchcase(path.name, pattern):
            text = _text(path)
            return reader(text, path) if text else {}
    return {}


def manifests(names: list[str]) -> list[str]:
    """Those of a folder's file names that are manifests, the more exact kinds first."""
    found: list[tuple[int, str]] = []
    for name in names:
        for pattern, rank, _ in _MANIFESTS:
            if fnmatchcase(name, pattern):
                found.append((rank, name))
                break
    return [name for _, name in sorted(found)]


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > _LARGEST_BYTES:
            return ""
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _locked(text: str, path: Path) -> Declared:
    found: dict[str, str] = {}
    pattern = _PIPENV if path.name == "Pipfile.lock" else _LOCKED
    for match in pattern.finditer(text):
        name, version = match["name"], match["version"]
        # One lock file may hold a version for each platform: the highest is meant.
        if name not in found or parse_version(version) > parse_version(found[name][2:]):
            found[name] = f"=={version}"
    return found


def _requirements(text: str, path: Path, depth: int = 3) -> Declared:
    found = _collected(_REQUIREMENT, text)
    if depth:
        for match in _INCLUDED.finditer(text):
            other = path.parent / match["path"]
            for name, specifier in _requirements(_text(other), other, depth - 1).items():
                found.setdefault(name, specifier)
    return found


def _conda(text: str, path: Path) -> Declared:
    found = _collected(_CONDA, text)
    # `transformers=4.36.2=py311_0` ends in a build number.
    return {name: re.sub(r"(?<=[\w*])=[\w.*]+$", "", text) for name, text in found.items()}


def _quoted(text: str, path: Path) -> Declared:
    return _collected(_QUOTED, text)


def _pyproject(text: str, path: Path) -> Declared:
    found: dict[str, str] = {}
    # [what stands before any section, name, body, name, body, ...]
    parts = _SECTION.split(text)
    for name, body in zip(parts[1::2], parts[2::2], strict=True):
        name = name.strip()
        if name.startswith("tool.poetry") and name.endswith("dependencies"):
            for line in _POETRY.finditer(body):
                specifier = line["specifier"] or line["inner"]
                # A bare number means "compatible with" there.
                found.setdefault(
                    _known(line["name"]), f"^{specifier}" if specifier[0].isdigit() else specifier
                )
        elif not name.startswith("tool.memlint"):
            for package, specifier in _collected(_QUOTED, body).items():
                found.setdefault(package, specifier)
    return found


def _collected(pattern: re.Pattern[str], text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for match in pattern.finditer(text):
        groups = match.groupdict()
        specifier = groups.get("specifier") or f"=={groups['tag']}"
        specifier = re.split(r"\s--|\s@\s|\)", specifier)[0]
        found.setdefault(_known(match["name"]), specifier.strip().rstrip(",").strip())
    return found


def _known(name: str) -> str:
    name = name.lower()
    return "torch" if name == "pytorch" else name


_Reader = Callable[[str, Path], Declared]

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
