"""What a project's own files say of the libraries' versions, read line by line.

Lock files, requirement and constraint files, ``Pipfile``, conda's ``environment.yml``,
``pyproject.toml``, ``setup.cfg``, ``setup.py``, Dockerfiles and shell scripts. No parsers of these
formats: a file that is broken elsewhere still says its pins, and nothing is imported that a check
of one small script would have to pay for.

Only regular files up to a limit are read, each once, in time linear in their size.
"""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase
from itertools import islice

from memlint.api.tables import NAMED
from memlint.api.versions import is_specifier, is_version, parse_version
from memlint.project.requirements import installs, known, requirement
from memlint.source.bounded import read_regular_text
from memlint.source.patterns import lazy_pattern

# A lock file of a large project has some two megabytes; anything far above is not one.
_LARGEST_BYTES = 16_000_000
# A folder that many projects keep instead of one file.
REQUIREMENTS = "requirements"
# How the name of a shell script ends: several in a folder may install for different purposes.
SHELL = ".sh"
# ``ARG TRL_VERSION=0.12.2`` and its use.
_VARIABLE = lazy_pattern(r"[ \t]*(?:ARG|ENV)[ \t]+(\w{1,80})[ \t]*=[ \t]*[\"']?(\d[\w.]{0,40})")
_USE = lazy_pattern(r"\$\{?(\w{1,80})(?::-[\w.]*)?\}?")
_LONGEST_LINE = 50_000
# Files that one requirements file may include, at any depth.
_MOST_INCLUDED = 50
# Strings on one line: a list of requirements has some dozens.
_MOST_STRINGS = 2000

_ANY_NAME = rf"(?P<name>{'|'.join(NAMED)}|pytorch)"
_ANY = lazy_pattern(_ANY_NAME, re.IGNORECASE)
_LOCK_LINE = lazy_pattern(r"(name|version)[ \t]*=[ \t]*[\"']([^\"']+)[\"']")
_PIPENV = lazy_pattern(
    rf"[\"']{_ANY_NAME}[\"']\s*:\s*\{{[^{{}}]*?[\"']version[\"']\s*:\s*[\"']==(?P<version>[^\"']+)"
)
_INCLUDED = lazy_pattern(r"(?:-r|--requirement|-c|--constraint)[ =]*([^\s#]+)")
_QUOTED = lazy_pattern(r"\"([^\"]*)\"|'([^']*)'")
_CONDA = lazy_pattern(
    rf"(?i)(?:[\w./-]{{1,100}}::)?{_ANY_NAME}(?![\w.-])[ \t]*(?P<specifier>[=<>~!][^#\"']*)"
)
_SECTION = lazy_pattern(r"\[([^\[\]]+)\][ \t]*(?:#.*)?")
_KEY = lazy_pattern(rf"(?i)[\"']?{_ANY_NAME}[\"']?[ \t]*=[ \t]*(?P<value>.*)")
_INNER = lazy_pattern(r"\b(version|tag|ref|rev|branch)[ \t]*=[ \t]*[\"']([^\"']+)[\"']")
_BASE_IMAGE = lazy_pattern(
    r"(?i)FROM[ \t]+(?:\S*/)?(?P<image>pytorch|transformers-pytorch-gpu):(?P<version>\d+(?:\.\d+)+)"
)

Declared = Mapping[str, str]
"""Package -> specifier, as it is written."""


def declared(path: str) -> Declared:
    """Return the versions that the file at ``path`` requires; empty where it cannot be read."""
    parent, name = os.path.split(path)
    for pattern, _, reader in _MANIFESTS:
        if fnmatchcase(f"{os.path.basename(parent)}/{name}", pattern) or fnmatchcase(name, pattern):
            text = text_of(path)
            return reader(text, path) if text else {}
    return {}


def manifests(names: list[str]) -> list[str]:
    """Return those of a folder's file names that are manifests, the more exact kinds first."""
    found: list[tuple[int, str]] = []
    for name in names:
        if name.endswith(_ENDS) or name.startswith(_BEGINNINGS):
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
    """Return the file's text; empty if it cannot be read or is too large for a manifest."""
    try:
        return read_regular_text(path, _LARGEST_BYTES)
    except (OSError, ValueError):
        return ""


def _locked(text: str, path: str) -> Declared:
    """Read ``uv.lock``, ``poetry.lock``, ``pdm.lock`` or ``pylock.toml``: a table a package."""
    found: dict[str, str] = {}
    package = ""
    for line in text.split("\n"):
        if line.startswith("["):
            package = ""
        elif line.startswith(("name", "version")):
            match = _LOCK_LINE.match(line)
            if match is None:
                continue
            if match[1] == "name":
                package = match[2]
            elif package in NAMED:
                _keep_highest(found, package, match[2])
                package = ""
    return found


def _pipenv(text: str, path: str) -> Declared:
    found: dict[str, str] = {}
    for match in _PIPENV.finditer(text):
        _keep_highest(found, known(match["name"]), match["version"])
    return found


def _keep_highest(found: dict[str, str], package: str, version: str) -> None:
    """Keep the highest version: a lock file may hold one for each platform."""
    if is_version(version) and (
        package not in found or parse_version(version) > parse_version(found[package][2:])
    ):
        found[package] = f"=={version}"


def _requirements(text: str, path: str, seen: set[str] | None = None) -> Declared:
    seen = {os.path.realpath(path)} if seen is None else seen
    found: dict[str, str] = {}
    included: list[str] = []
    for line in text.split("\n"):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        include = _INCLUDED.match(line) if line.startswith("-") else None
        if include is not None:
            included.append(include[1].strip("\"'"))
            continue
        pin = requirement(line)
        if pin is not None:
            found.setdefault(*pin)
    for name in included:
        for package, specifier in _included(name, path, seen).items():
            found.setdefault(package, specifier)
    return found


def _included(name: str, path: str, seen: set[str]) -> Declared:
    """Read another requirements file, unless it was read already."""
    if "\0" in name:
        return {}
    other = os.path.join(os.path.dirname(path), name)
    real = os.path.realpath(other)
    if real in seen or len(seen) > _MOST_INCLUDED:
        return {}
    seen.add(real)
    return _requirements(text_of(other), other, seen)


def _conda(text: str, path: str) -> Declared:
    found: dict[str, str] = {}
    seen = {os.path.realpath(path)}
    for line in text.split("\n"):
        line = line.strip()
        if not line.startswith("-"):
            continue
        item = line[1:].strip().strip("\"'")
        include = _INCLUDED.match(item) if item.startswith("-") else None
        if include is not None:
            for package, specifier in _included(include[1], path, seen).items():
                found.setdefault(package, specifier)
            continue
        match = _CONDA.match(item)
        if match is None:
            pin = requirement(item)
            if pin is not None:
                found.setdefault(*pin)
            continue
        # `transformers=4.36.2=py311_0` ends in a build number.
        specifier = re.split(r"[ \t]@|;", match["specifier"])[0].strip()
        specifier = re.sub(r"(?<=[\w*])=[\w.*]+$", "", specifier)
        if is_specifier(specifier):
            found.setdefault(known(match["name"]), specifier)
    return found


def declared_in_strings(lines: list[str]) -> dict[str, str]:
    """Return the requirements among the strings on ``lines``."""
    found: dict[str, str] = {}
    for line in lines:
        if line[:40].lstrip().startswith("#") or not _ANY.search(line):
            continue
        for match in islice(_QUOTED.finditer(line), _MOST_STRINGS):
            pin = requirement(match[1] or match[2] or "")
            if pin is not None:
                found.setdefault(*pin)
    return found


def _pyproject(text: str, path: str) -> Declared:
    """Read ``pyproject.toml`` and ``Pipfile``: requirements in strings, or packages as keys."""
    found: dict[str, str] = {}
    sources: dict[str, str] = {}
    for section, lines in _sections(text):
        if section.startswith("tool.memlint"):
            continue
        sign = _sign_of_numbers(section)
        if sign is None:
            found = declared_in_strings(lines) | found
        for match in filter(None, map(_KEY.match, lines)):
            name, value = match["name"], match["value"]
            table = dict(_INNER.findall(value)) if value.startswith("{") else {}
            tag = next((table[key] for key in _TAGS if table.get(key)), "")
            pin = requirement(f"{name} @ git+x@{tag}") if tag else None
            if pin is not None:
                sources.setdefault(*pin)
            elif sign is not None:
                specifier = table.get("version") or _string(value)
                specifier = f"{sign}{specifier}" if specifier[:1].isdigit() else specifier
                if is_specifier(specifier):
                    found.setdefault(known(name), specifier)
    return {**found, **sources}


def _sign_of_numbers(section: str) -> str | None:
    """Return the operator that a section's bare numbers imply; None for other sections."""
    if section.startswith("tool.poetry") and section.endswith("dependencies"):
        return "^"
    return "==" if section in _PIPFILE_SECTIONS else None


def _string(value: str) -> str:
    """Return the text of the TOML string at a value's start; empty if there is no string."""
    quoted = _QUOTED.match(value)
    return quoted[1] or quoted[2] or "" if quoted is not None else ""


_PIPFILE_SECTIONS = ("packages", "dev-packages")
_TAGS = ("tag", "ref", "rev", "branch")


def _sections(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the tables of a TOML file with their lines, without the lines before the first."""
    name: str | None = None
    lines: list[str] = []
    for line in text.split("\n"):
        header = _SECTION.fullmatch(line) if line.startswith("[") else None
        if header is None:
            lines.append(line)
            continue
        if name is not None:
            yield name, lines
        name, lines = header[1].strip(), []
    if name is not None:
        yield name, lines


def _docker(text: str, path: str) -> Declared:
    lines = text.split("\n")
    matches = map(_VARIABLE.match, lines)
    variables: dict[str, str] = {match[1]: match[2] for match in matches if match is not None}
    if variables:
        lines = [
            _USE.sub(lambda use: variables.get(use[1], use[0]), line[:_LONGEST_LINE])
            for line in lines
        ]
    found = dict(installs(lines))  # the last command is what the image has
    for line in lines:
        base = _BASE_IMAGE.match(line.strip())
        if base is not None and is_version(base["version"]):
            package = "torch" if base["image"].lower() == "pytorch" else "transformers"
            found.setdefault(package, f"=={base['version']}")
    return found


def _shell(text: str, path: str) -> Declared:
    """Return the versions that a shell script installs."""
    return dict(installs(text.split("\n"))) if "install" in text or " add " in text else {}


_Reader = Callable[[str, str], Declared]

_MANIFESTS: tuple[tuple[str, int, _Reader], ...] = (
    ("uv.lock", 0, _locked),
    ("poetry.lock", 0, _locked),
    ("pdm.lock", 0, _locked),
    ("pylock*.toml", 0, _locked),
    ("Pipfile.lock", 0, _pipenv),
    ("requirements.txt", 1, _requirements),
    ("requirements*.txt", 2, _requirements),
    ("requirements*.lock", 2, _requirements),
    ("docs/requirements*.lock", 10, _requirements),
    ("config*/requirements*.txt", 10, _requirements),
    ("*requirements.txt", 2, _requirements),
    (f"{REQUIREMENTS}/*.txt", 2, _requirements),
    ("constraints*.txt", 2, _requirements),
    ("Pipfile", 2, _pyproject),
    ("environment*.y*ml", 3, _conda),
    ("conda*.y*ml", 3, _conda),
    ("pyproject.toml", 4, _pyproject),
    ("setup.cfg", 5, _requirements),
    ("setup.py", 6, lambda text, _: declared_in_strings(text.split("\n"))),
    ("Dockerfile", 7, _docker),
    ("Dockerfile.*", 8, _docker),
    ("*.[Dd]ockerfile", 8, _docker),
    ("Containerfile", 8, _docker),
    (f"*{SHELL}", 9, _shell),
)
# Most files of a folder are none, which their names' ends or beginnings show.
_ENDS = (
    *(".lock", ".toml", ".txt", ".yml", ".yaml", ".cfg", "setup.py", "ockerfile", "Pipfile"),
    SHELL,
)
_BEGINNINGS = ("Dockerfile", "Containerfile")
