"""The strings that an option may be at the target, as far as the libraries' code says."""

from collections.abc import Sequence

from memlint.api.knowledge.enumerated import (
    COMPILED_BY,
    GONE_BACKENDS,
    OF_OTHER_PACKAGES,
    READ_ELSEWHERE,
)
from memlint.api.releases import Releases
from memlint.api.tables import holds
from memlint.api.versions import is_between

_PACKAGES = ("transformers", "accelerate", "trl")


def choices(releases: Releases, order: Sequence[str], parameter: str) -> frozenset[str] | None:
    """What ``parameter`` may be; None where anything goes. order: its class and the bases of it."""
    for name in order:
        option = f"{name}.{parameter}"
        read = READ_ELSEWHERE.get(option, option)
        package = read.partition(".")[0]
        if package not in _PACKAGES or releases.is_beyond(package):
            continue
        record = releases.table(f"{package}_values").record(read)
        release = releases.number(package)
        allowed = frozenset(
            word
            for text, words in (record or {}).items()
            if holds(text, release)
            for word in words.split()
        )
        if allowed:
            return allowed - gone_values(releases, order, parameter)
    return None


def gone_values(releases: Releases, order: Sequence[str], parameter: str) -> frozenset[str]:
    """What ``parameter`` could be once and cannot at the target, though its type is as it was."""
    if not any(f"{name}.{parameter}" in COMPILED_BY for name in order):
        return frozenset()
    torch = releases.version("torch")
    return frozenset(word for word, since in GONE_BACKENDS.items() if is_between(torch, since, ""))


def advised(words: frozenset[str]) -> list[str]:
    """Return the names that need no other package than the library, in order."""
    return sorted(words - OF_OTHER_PACKAGES)
