"""The columns of data that a script is likely to take, by its text, and what they hold."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from typing import Any

from memlint.source.bounded import read_regular
from memlint.source.parsing import parse_python

_CHATS = re.compile(r"apply_chat_template\(\s{0,40}\w{1,40}\[[\"'](\w{1,40})[\"']\]")
_INNER = re.compile(r"\b\w+\[[\"'](\w+)[\"']\]\[[\"'](\w+)[\"']\]")
_NUMBERS = re.compile(r"\b(int|float)\(\w+\[[\"'](\w+)[\"']\]\)")
_DATA: Mapping[str, Any] = json.loads(
    read_regular(os.path.join(os.path.dirname(__file__), "data", "columns.json"))
)
# Columns of public data sets, and what they hold.
COLUMNS: dict[str, str] = dict.fromkeys(_DATA["texts"], "text") | _DATA["columns"]
_TOKENIZED = frozenset({"input_ids", "attention_mask", "token_type_ids", "labels", "pixel_values"})
_SETTINGS = frozenset({"args", "cfg", "config", "kwargs", "logs", "metrics", "options", "params"})


def sample_columns(text: str, *others: str) -> str:
    """Return the rows that a script is likely to take: the columns that its functions read of their
    parameters (``row["quote"]``), and loops of what they go through, but of settings, and but those
    that a tokenizer makes; else those that it names, else by its trainer, else those that
    ``others`` read, the modules that it imports. As ``sample_rows`` says."""
    parse_python(text)  # whose errors are told before anything runs
    columns = _columns(text)
    return columns if columns != "text" else _columns("\n".join((text, *others)))


def _columns(text: str) -> str:
    heads = re.findall(r"\b(?:def \w+|lambda)\b([^):]*)|\bfor ([\w, ]{1,60}) in\b", text)
    holders = {*re.findall(r"\w+", " ".join(map(" ".join, heads)))} - _SETTINGS
    read = re.findall(r"\b(\w+)(?:\.get\(|\[)[\"'](\w+)[\"']", text)
    items = re.findall(r"\bfor (\w+) in \w+\[[\"'](\w+)[\"']\]", text)
    kinds = _kinds(text, read, items)
    holders -= {item for item, column in items if kinds.get(column, "")[:1] in ("{", "[")}
    named = [name for holder, name in read if holder in holders and name not in _TOKENIZED]
    quoted = dict.fromkeys(re.findall(r"[\"'](\w+)[\"']", text))
    named = [*dict.fromkeys(named)] or [name for name in quoted if name in COLUMNS]
    if named == ["text"] and "ForSequenceClassification" in text:
        return "classes"
    if named and "chosen" not in quoted:
        return ",".join(f"{name}:{kind_of(name, kinds)}" for name in named)
    return _by_trainer(text)


def _by_trainer(text: str) -> str:
    chats = _CHATS.findall(text)
    rows: str
    for word, rows in _DATA["by trainer"].items():
        if f"{word}Trainer" in text or f"For{word}" in text:
            return "preference-implicit-conversation" if "chosen" in chats else rows
    return "text"


def kind_of(name: str, kinds: Mapping[str, str] = COLUMNS) -> str:
    """Return what a column holds by its name, or by the last word of it."""
    return kinds.get(name) or kinds.get(name.rpartition("_")[2].rstrip("s"), "text")


def _kinds(text: str, read: list[tuple[str, str]], items: list[tuple[str, str]]) -> dict[str, str]:
    """Return what columns hold: numbers by what they become, lists and dicts by the keys that are
    read of their items. items: names of loops, and the columns that they go through."""
    kinds = COLUMNS | {column: kind for kind, column in _NUMBERS.findall(text)}
    kinds |= dict.fromkeys(_CHATS.findall(text), "messages")
    inner = [(column, key, True) for column, key in _INNER.findall(text) if column != "answers"]
    inner += [(column, key, "batched=True" in text)  # items of a batch's column are one row's each
              for item, column in items for holder, key in read if holder == item]  # fmt: skip
    for column, _, is_dict in inner:
        keys = dict.fromkeys(key for of, key, _ in inner if of == column)
        chat = "messages" if "role" in keys else "conversations" if "from" in keys else ""
        kinds[column] = chat or ("{%s}" if is_dict else "[%s]") % "+".join(keys)
    return kinds
