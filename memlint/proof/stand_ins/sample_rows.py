"""Rows of every shape that training scripts expect, by name.

Texts differ in length, so that padding, truncation and packing have something to do.
"""

from __future__ import annotations

from typing import Any

_TEXT = """\
the model reads a row of text and learns which word comes next while memory fills with activations
gradients and states of the optimizer until the step is over and all is free
"""
_WORDS = _TEXT.split()
COUNT = 16


def text(index: int, words: int = 0) -> str:
    """A text of its own for each index; between 5 and 40 words unless ``words`` says."""
    length = words or 5 + (index * 7) % 36
    return " ".join(_WORDS[(index + step) % len(_WORDS)] for step in range(length))


def _messages(index: int) -> list[dict[str, str]]:
    return [
        {"role": "user", "content": text(index, 6)},
        {"role": "assistant", "content": text(index + 3)},
    ]


def _row(kind: str, index: int) -> dict[str, Any]:
    answer = [{"role": "assistant", "content": text(index + 1)}]
    worse = [{"role": "assistant", "content": text(index + 2, 9)}]
    question = [{"role": "user", "content": text(index, 12)}]
    match kind:
        case "text":
            return {"text": text(index)}
        case "messages":
            return {"messages": _messages(index)}
        case "prompt":
            return {"prompt": text(index, 12)}
        case "prompt-conversation":
            return {"prompt": question}
        case "prompt-completion":
            return {"prompt": text(index, 8), "completion": " " + text(index + 1)}
        case "preference":
            return {
                "prompt": text(index, 12),
                "chosen": " " + text(index + 1),
                "rejected": " " + text(index + 2, 9),
            }
        case "preference-implicit":
            before = f"Human: {text(index, 8)} Assistant: "
            return {"chosen": before + text(index + 1), "rejected": before + text(index + 2, 9)}
        case "preference-conversation":
            return {"prompt": question, "chosen": answer, "rejected": worse}
        case "preference-implicit-conversation":
            return {"chosen": question + answer, "rejected": question + worse}
        case "kto":
            return {
                "prompt": text(index, 8),
                "completion": " " + text(index + 1),
                "label": index % 2 == 0,
            }
        case "classes":
            return {"text": text(index), "label": index % 2}
    raise ValueError(f"no rows are called {kind!r}")


def rows(kind: str, count: int = COUNT) -> list[dict[str, Any]]:
    """``count`` rows of a named shape, or of columns: ``question,answer,label:int``.

    A column is text unless it says more: ``:int``, ``:float``, ``:bool``, ``:number``
    (a text that ends in one), ``:list`` (of text), ``:ids``, ``:messages`` or ``:conversations``.
    """
    if "," not in kind and ":" not in kind:
        return [_row(kind, index) for index in range(count)]
    return [
        {
            name: _value(of, index)
            for name, _, of in (column.strip().partition(":") for column in kind.split(","))
        }
        for index in range(count)
    ]


def _value(of: str, index: int) -> Any:
    match of:
        case "" | "text":
            return text(index)
        case "number":
            return f"{text(index, 10)} #### {index}"
        case "int":
            return index % 2
        case "float":
            return index / 2
        case "bool":
            return index % 2 == 0
        case "ids":
            return [3 + (index + step) % 60 for step in range(8 + index)]
        case "list":
            return [text(index), text(index + 1)]
        case "comments":
            return [{"text": text(index), "score": index % 2}]
        case "messages":
            return _messages(index)
        case "conversations":
            return [
                {"from": "human", "value": text(index, 6)},
                {"from": "gpt", "value": text(index + 3)},
            ]
    raise ValueError(f"no column is of kind {of!r}")
