"""One requirement, as people write it, and the requirements of a command that installs.

``trl[peft] >=0.8,<0.9 ; python_version > "3.8"``, ``trl @ git+https://host/trl@v0.12.0``,
``git+https://github.com/huggingface/trl.git@v0.12.0#egg=trl``, ``trl-0.12.2-py3-none-any.whl``.

Every pattern takes time linear in the text: repositories from elsewhere decide what is read here.
"""

import re
from collections.abc import Iterable, Iterator

from memlint.api.tables import NAMED
from memlint.api.versions import is_specifier, is_version
from memlint.source.patterns import lazy_pattern

# A longer line is no requirement; hashes stand behind the version.
_LONGEST = 2000
_LONGEST_COMMAND = 50_000

COMMIT = "@"
"""How the specifier of a commit begins: some release's neighbour, and nobody knows of which."""

_NAMES = rf"{'|'.join(NAMED)}|pytorch|llama-factory"
_SIGNS = lazy_pattern(r"[=<>~!@/-]")
_NAMED = lazy_pattern(
    rf"(?i)[ \t]*(?P<name>{_NAMES})(?![\w.-])[ \t]*+(?:\[[^\]]*\])?[ \t]*+"
    r"(?:\(?[ \t]*+(?P<specifier>(?:===|==|~=|!=|<=|>=|<|>)[^;#\"'\\)@]*)|@[ \t]*(?P<url>\S+))"
)
_REPOSITORY = lazy_pattern(
    rf"(?i)[/:]({_NAMES})(?:\.git)?(?:@|/archive/(?:refs/tags/)?|/tree/)(?P<tag>[^\s#&/]+)"
)
_EGG = lazy_pattern(rf"(?i)[#&]egg=({_NAMES})(?![\w.-])")
_WHEEL = lazy_pattern(
    rf"(?i)(?:^|[/=])({_NAMES})-(?P<version>\d[^-/\s]*)(?:-[^/\s]*\.whl|\.tar\.gz)"
)
_TAG = lazy_pattern(r"v?(\d{1,5}\.\d{1,5}(?:\.\d{1,5})?)")
_COMMIT = lazy_pattern(r"[0-9a-f]{7,40}(?![\w.-])")
_COMMAND = lazy_pattern(r"\b(?:pip3?|pip3?\.\d+|conda|mamba|micromamba|poetry|uv|pdm)\b")
_VERB = lazy_pattern(r"\s(?:install|add)\s")
_WORD = lazy_pattern(r"\"([^\"]*)\"|'([^']*)'|([^\s\"';&|]+)|([;&|])")


def requirement(text: str) -> tuple[str, str] | None:
    """Package and specifier of one requirement; None where it pins none of the libraries."""
    text = text[:_LONGEST].strip()
    if not _SIGNS.search(text):
        return None  # most lines and strings
    for option in ("-e", "--editable"):
        if text.startswith((f"{option} ", f"{option}=")):
            text = text[len(option) + 1 :].strip(" \t\"'")
    match = _NAMED.match(text)
    if match is None:
        return _of_address(text)
    package = known(match["name"])
    if match["url"] is not None:
        found = _of_address(match["url"])
        return (package, found[1]) if found else _tagged(package, match["url"].partition("@")[2])
    specifier = re.split(r"\s--", match["specifier"])[0].strip().rstrip(",").strip()
    return (package, specifier) if is_specifier(specifier) else None


def installs(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the packages that commands on ``lines`` install: ``RUN pip install trl==0.12.2``."""
    for line in _joined(lines):
        for command in re.split(r"&&|\|\||;(?=\s)", line[:_LONGEST_COMMAND]):
            tool = _COMMAND.search(command)
            verb = _VERB.search(command, tool.end()) if tool else None
            if verb is None:
                continue
            for word in _WORD.finditer(command, verb.end()):
                if word[4]:
                    break
                found = requirement(_conda_pin(word[1] or word[2] or word[3] or ""))
                if found is not None:
                    yield found


def known(name: str) -> str:
    """Return a library by its package or repository: conda calls torch ``pytorch``."""
    name = name.lower()
    return {"pytorch": "torch", "llama-factory": "llamafactory"}.get(name, name)


def _conda_pin(word: str) -> str:
    """Write ``trl=0.12.2`` from conda's command line as ``trl==0.12.2``."""
    name, sign, version = word.partition("=")
    is_pin = sign and name.isalnum() and not version.startswith("=")
    return f"{name}=={version.partition('=')[0]}" if is_pin else word


def _of_address(text: str) -> tuple[str, str] | None:
    """Return library and version of a repository at a tag, or of a wheel."""
    wheel = _WHEEL.search(text)
    if wheel is not None and is_version(wheel["version"]):
        return known(wheel[1]), f"=={wheel['version']}"
    repository = _REPOSITORY.search(text)
    if repository is not None:
        return _tagged(known(repository[1]), repository["tag"])
    egg = _EGG.search(text)
    return _tagged(known(egg[1]), text.rpartition("@")[2]) if egg else None


def _tagged(package: str, tag: str) -> tuple[str, str] | None:
    tag = tag.rpartition("@")[2]
    match = _TAG.match(tag)
    if match is not None:
        return package, f"=={match[1]}"
    commit = _COMMIT.match(tag)
    return (package, f"{COMMIT}{commit[0]}") if commit else None


def _joined(lines: Iterable[str]) -> Iterator[str]:
    """Yield ``lines`` with those that end in a backslash joined to the next; comments left out."""
    parts: list[str] = []
    for line in lines:
        stripped = line.strip()
        if stripped.startswith("#"):
            continue
        if stripped.endswith("\\"):
            parts.append(stripped[:-1])
            continue
        parts.append(stripped)
        yield " ".join(parts)
        parts.clear()
    if parts:
        yield " ".join(parts)
