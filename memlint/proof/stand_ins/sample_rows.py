"""Rows of every shape that training scripts expect, by name.

Texts differ in length, so that padding, truncation and packing have something to do.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from typing import Any

from memlint.run.sampled_columns import COLUMNS
from memlint.source.bounded import read_regular

# What scripts load, by name: shapes of rows, columns, configurations of checkpoints by a part of
# their name (the first that fits), sizes of models; what a user can do about a stop; and what
# trainers' arguments become, None for what the library has where nobody says it. "always": what
# needs a network, a second process or a GPU, or says nothing of training. "small": so that any
# script of the open repositories takes its steps.
TABLES: Mapping[str, Any] = json.loads(
    read_regular(os.path.join(os.path.dirname(__file__), "tables.json"))
)
_WORDS = "".join(TABLES["text"]).split()
NOT_SAID = "--"  # among the data: what a script may not require is answered, too
COUNT = 16
SHORT = 12  # words of a prompt


def text(index: int, words: int = 0) -> str:
    """A text of its own for each index; between 5 and 40 words unless ``words`` says."""
    length = words or 5 + (index * 7) % 36
    return " ".join(_WORDS[(index + step) % len(_WORDS)] for step in range(length))


def _says(words: str, role: str = "assistant") -> list[dict[str, str]]:
    return [{"role": role, "content": words}]


def _asks(index: int) -> list[dict[str, str]]:
    return _says(text(index, SHORT), "user")


# What a column holds, by the number of its row.
_VALUES: dict[str, Callable[[int], Any]] = {
    "": lambda n: text(n, 0), "text": lambda n: text(n, 0), "short": lambda n: text(n, SHORT),
    "int": lambda n: n % 2,
    "number": lambda n: f"{text(n, 10)} #### {n}", "float": lambda n: n / 2,
    "bool": lambda n: n % 2 == 0, "ids": lambda n: [3 + (n + step) % 60 for step in range(8 + n)],
    "list": lambda n: [text(n), text(n + 1)],
    "words": lambda n: text(n).split(),
    "tags": lambda n: [index % 2 for index, _ in enumerate(text(n).split())],
    "answers": lambda n: {"text": [text(n, 2)], "answer_start": [0]},
    "messages": lambda n: [*_says(text(n, 6), "user"), *_says(text(n + 3))],
    "conversations": lambda n: [
        {"from": "human", "value": text(n, 6)}, {"from": "gpt", "value": text(n + 3)}
    ],
    "completion": lambda n: f" {text(n + 1)}", "worse": lambda n: f" {text(n + 2, 9)}",
    "good_dialogue": lambda n: f"Human: {text(n, 8)} Assistant: {text(n + 1)}",
    "worse_dialogue": lambda n: f"Human: {text(n, 8)} Assistant: {text(n + 2, 9)}",
    "question": _asks, "good_answer": lambda n: _says(text(n + 1)),
    "worse_answer": lambda n: _says(text(n + 2, 9)),
    "good_chat": lambda n: _asks(n) + _says(text(n + 1)),
    "worse_chat": lambda n: _asks(n) + _says(text(n + 2, 9)),
}  # fmt: skip


def rows(kind: str, count: int = COUNT) -> list[dict[str, Any]]:
    """``count`` rows of named shapes, or of columns: ``question,answer,label:int``.

    A column is text unless it says more: ``:int``, ``:float``, ``:bool``, ``:number``
    (a text that ends in one), ``:list`` (of text), ``:words``, ``:tags`` (a number for each),
    ``:ids``, ``:messages``, ``:conversations``, ``:{en+de}`` (a dict), ``:[by+said]`` (a list of
    them) or ``:6`` (so many numbers).
    """
    shape = ",".join(TABLES["shapes"].get(part.strip(), part.strip()) for part in kind.split(","))
    columns = [column.partition(":") for column in shape.split(",")]
    return [{name: _value(of, index) for name, _, of in columns} for index in range(count)]


def _value(kind: str, index: int) -> Any:
    if kind[:1] == "{":
        keys = enumerate(kind.strip("{}").split("+"))
        return {key: _value(COLUMNS.get(key, "text"), index + place) for place, key in keys}
    if kind[:1] == "[":
        return [_value(f"{{{kind.strip('[]')}}}", index + step) for step in (0, 1)]
    if kind.isdecimal():
        return [float((index + place) % 2) for place in range(int(kind))]
    if kind not in _VALUES:
        kinds = ", ".join(filter(None, _VALUES))
        raise ValueError(f"no column is of kind {kind!r}; kinds: {kinds}")
    return _VALUES[kind](index)
