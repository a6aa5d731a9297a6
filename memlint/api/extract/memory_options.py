"""Options of the newest releases whose names speak of memory: candidates for rules."""

import re
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from memlint.api.tables import NAMED, Table, spans, table

_SPEAKS = re.compile(
    r"(?i)memory|offload|chunk|tile|checkpointing|quant|[48]_?bit|(?:nv|mx)?fp[48]|float8|sleep|"
    r"kv_?cache|cache_(?:impl|dtype)|shard|fsdp|zero\d|parallel|(?:cp|tp|sp|ep)_size|liger|paged|"
    r"galore|apollo|muon|lion|adam|schedule_?free|dora|lora_?fa|vblora|token_indices|packing|"
    r"padding_free|expandable|alloc|experts|low_cpu|empty_cache|utilization|precompute|in_bwd|qat|"
    r"cross_entropy|logits"
)
_DEPTH = 4  # parts of a name that users write


def candidates(last: int) -> Iterator[tuple[str, str, str, bool]]:
    """Yield package, release, and name of what came with the last releases, an option behind its
    class or function; and whether a line of the linter or its rules names it."""
    for package in NAMED:
        shipped = table(package)
        first = max(len(shipped.releases) - last, 1)
        for since, name in sorted({found for found in _names(shipped) if found[0] >= first}):
            word = re.split(r"[. ]", name)[-1]
            if _SPEAKS.search(word):
                yield package, shipped.releases[since], name, word in _words()


def _names(shipped: Table) -> Iterator[tuple[int, str]]:
    """Yield the number of the release with which each record, and each option of one, began."""
    for owner in shipped.names():
        record: Any = shipped.record(owner) or {}
        parts = owner.split(".")
        inner = len(parts) > _DEPTH or any(part.startswith("_") for part in parts)
        if inner or "models" in parts or owner.endswith(":") or owner == "notes":
            continue
        begin = _first(record.get("at", ""))
        yield begin, owner
        for facts in (record.get(name, {}) for name in ("fields", "init", "function")):
            for option, history in facts.get("p", {}).items():
                yield max(begin, min(map(_first, history))), f"{owner} {option}"
        for text, words in record.get("keys", {}).items():
            yield from ((max(begin, _first(text)), f"{owner} {word}") for word in words.split())


def _first(text: str) -> int:
    return spans(text)[0][0] if text else 0


@cache
def _words() -> frozenset[str]:
    """All words in the code of the linter and its rules, this module apart."""
    found = filter(None, map(find_spec, ("memlint", "memlint_rules")))
    folders = [Path(spec.origin or "").parent for spec in found]
    files = [path for folder in folders for path in folder.rglob("*.py") if path != Path(__file__)]
    return frozenset(re.findall(r"\w+", "\n".join(path.read_text("utf-8") for path in files)))
