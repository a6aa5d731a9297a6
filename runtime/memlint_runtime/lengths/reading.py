"""Lengths out of whatever holds a dataset: token columns, texts with a tokenizer, files.

What: `read_lengths`. Token columns of a `datasets.Dataset` are measured without reading a token.
Cost: texts are tokenized once, a thousand at a time; nothing but the lengths is kept.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memlint_runtime.quantities import whole_number

_TEXTS_AT_ONCE = 1000

_LOADERS = {".csv": "csv", ".tsv": "csv", ".parquet": "parquet", ".arrow": "arrow"}


def read_lengths(
    data: Any, column: str | None, tokenizer: Any, limit: int | None
) -> NDArray[np.int64] | list[int]:
    """Tokens of each sequence of ``data``; see `LengthProfile.of`."""
    if limit is not None:
        limit = whole_number("limit", limit, 0)
    if data is None:
        raise ValueError("there is no data to measure, got None: pass a dataset, rows or a path.")
    if isinstance(data, str | Path):
        data = _open(Path(data))
    measured = _of_token_column(data, column or "input_ids")
    if measured is not None:
        return measured[:limit]
    if isinstance(data, Mapping):
        raise ValueError(
            f"the data is one mapping of {', '.join(map(repr, data))}, not a sequence of rows. "
            f"Pass one of these."
        )
    rows = islice(iter(data), limit)
    return list(_lengths_of_rows(rows, column, tokenizer))


def _open(path: Path) -> Any:
    if not path.exists():
        raise ValueError(f"there is no file or folder {path}.")
    if path.is_dir():
        from datasets import load_from_disk

        stored = load_from_disk(str(path))
        if hasattr(stored, "keys"):
            raise ValueError(
                f"{path} holds the splits {', '.join(stored)}; name one, such as "
                f"{path / next(iter(stored))}."
            )
        return stored
    if path.suffix in (".jsonl", ".ndjson"):
        return _json_lines(path)
    if path.suffix == ".json":
        stored = _parsed(path.read_text(encoding="utf-8"), f"{path}")
        if not isinstance(stored, list):
            raise ValueError(f"{path} is no list of rows. For one JSON row a line, name it .jsonl.")
        return stored
    if path.suffix == ".txt":
        return path.read_text(encoding="utf-8").splitlines()
    if path.suffix not in _LOADERS:
        raise ValueError(
            f"{path.name} is none of .jsonl, .json, .txt, {', '.join(_LOADERS)} and no folder of a "
            f"saved dataset."
        )
    from datasets import Dataset

    if path.suffix == ".arrow":
        return Dataset.from_file(str(path))
    options = {"sep": "\t"} if path.suffix == ".tsv" else {}
    return getattr(Dataset, f"from_{_LOADERS[path.suffix]}")(str(path), **options)


def _json_lines(path: Path) -> Iterator[Any]:
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                yield _parsed(line, f"{path}, line {number}")


def _parsed(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"{where} is not JSON: {error}.") from None


def _of_token_column(data: Any, column: str) -> NDArray[np.int64] | None:
    """Lengths of a token column of a `datasets.Dataset`, from its offsets alone."""
    if not hasattr(data, "data") or column not in (getattr(data, "column_names", None) or ()):
        return None
    from memlint_runtime.packing.columns import is_token_column, read_column

    table = data.data.table
    if not is_token_column(table.schema.field(column).type):
        return None
    lengths = read_column(column, table[column]).lengths
    return lengths if data._indices is None else lengths[data._indices.column(0).to_numpy()]


def _lengths_of_rows(rows: Iterable[Any], column: str | None, tokenizer: Any) -> Iterator[int]:
    rows = iter(rows)
    while batch := list(islice(rows, _TEXTS_AT_ONCE)):
        texts: list[str] = []
        # Of each row its alternatives: tokens known already, and texts still to be counted.
        parts: list[list[tuple[int, slice]]] = []
        for row in batch:
            alternatives = []
            for pieces in _measured(row, column):
                start = len(texts)
                texts.extend(_text(p, tokenizer) for p in pieces if not isinstance(p, int))
                known = sum(p for p in pieces if isinstance(p, int))
                alternatives.append((known, slice(start, len(texts))))
            parts.append(alternatives)
        counted = _count(texts, tokenizer)
        for alternatives in parts:
            yield max(known + sum(counted[part]) for known, part in alternatives)


def _measured(row: Any, column: str | None) -> list[list[Any]]:
    """Alternatives of a row, of which the longest counts, each a list of what adds up.

    Token lists and lengths are given as numbers; texts and conversations as they are.
    """
    if not isinstance(row, Mapping):
        return [[_tokens_or_text(row)]]
    if column is not None:
        if column not in row:
            raise ValueError(f"a row has no {column!r} but {', '.join(map(repr, row))}.")
        return [[_tokens_or_text(row[column])]]
    for name in ("input_ids", "text", "messages", "conversations"):
        if name in row:
            return [[_tokens_or_text(row[name])]]
    for prefix, suffix in (("prompt_ids", "_ids"), ("prompt", "")):
        answers = [f"{side}{suffix}" for side in ("completion", "chosen", "rejected")]
        found = [row[name] for name in answers if row.get(name) is not None]
        if found:
            prompt = [_tokens_or_text(row[prefix])] if prefix in row else []
            return [[*prompt, _tokens_or_text(answer)] for answer in found]
        if prefix in row:
            return [[_tokens_or_text(row[prefix])]]
    raise ValueError(
        f"no column to measure among {', '.join(map(repr, row))}. Name it with column= (--column)."
    )


def _tokens_or_text(value: Any) -> Any:
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, str):
        return value
    if not hasattr(value, "__len__"):
        raise ValueError(f"cannot measure a {type(value).__name__}; give tokens, text or lengths.")
    if len(value) and isinstance(value[0], Mapping):
        return value
    return len(value)


def _text(value: Any, tokenizer: Any) -> str:
    if tokenizer is None:
        raise ValueError("texts need a tokenizer to be measured: tokenizer= (--tokenizer PATH).")
    if isinstance(value, str):
        return value
    messages = [
        {"role": _role(m), "content": m.get("content", m.get("value")) or ""} for m in value
    ]
    if getattr(tokenizer, "chat_template", None) is None:
        raise ValueError(
            "the tokenizer has no chat template, so conversations cannot be measured with it."
        )
    rendered: str = tokenizer.apply_chat_template(messages, tokenize=False)
    return rendered


def _role(message: Mapping[str, Any]) -> str:
    role = message.get("role", message.get("from", "user"))
    return {"human": "user", "gpt": "assistant"}.get(str(role), str(role))


def _count(texts: list[str], tokenizer: Any) -> list[int]:
    if not texts:
        return []
    return [len(ids) for ids in tokenizer(texts, add_special_tokens=True)["input_ids"]]
