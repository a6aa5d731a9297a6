"""Cutting sequences, as plain functions of a row for `dataset.map`.

    dataset = dataset.map(truncate, fn_kwargs={"max_length": 2048})
    dataset = dataset.map(
        truncate_prompt_and_completion, fn_kwargs={"max_prompt_length": 1024, "max_length": 2048}
    )

What: whole sequences at either end; prompts from the left and completions from the right, each
with a limit of its own and one in all; text by tokens.
Why: memory goes with the longest sequence, and what is cut decides what is learned. TRL's DPO and
GRPO configurations have had no limit for prompts since 0.29 and 0.28.
Cost: what is cut is lost; `LengthProfile.tokens_lost` says how much beforehand.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, Literal

from memlint_runtime.quantities import holds_rows, whole_number

__all__ = ["truncate", "truncate_prompt_and_completion", "truncate_text"]

Row = Mapping[str, Any]
Keep = Literal["start", "end"]

# Columns that run along input_ids, where a row has them.
_ALONG = (
    "input_ids", "attention_mask", "labels", "token_type_ids", "position_ids", "completion_mask",
    "assistant_masks", "special_tokens_mask", "shift_labels",
)  # fmt: skip

_COMPLETIONS = ("completion_ids", "chosen_ids", "rejected_ids")

_IGNORED_LABEL = -100


def truncate(row: Row, *, max_length: int, keep: Keep = "start") -> dict[str, Any]:
    """The columns along `input_ids` cut to ``max_length`` tokens, the start or the end kept.

    Returns only the columns that run along `input_ids`, as `dataset.map` wants them. Warns when
    nothing is left to learn from in a row that had something: its completion was cut off.
    ValueError for a batch of rows (``batched=True``).
    """
    max_length = whole_number("max_length", max_length, 1, "token")
    _require_keep(keep)
    columns = _columns_along(row)
    whole = len(columns["input_ids"]) <= max_length
    part = (
        slice(None) if whole else slice(max_length) if keep == "start" else slice(-max_length, None)
    )
    cut = {name: values[part] for name, values in columns.items()}
    if _has_target(columns) and not _has_target(cut):
        warnings.warn(
            f"truncation to {max_length} tokens cut off the whole completion of at least one row; "
            f"truncate_prompt_and_completion cuts prompts first.",
            stacklevel=2,
        )
    return cut


def truncate_prompt_and_completion(
    row: Row,
    *,
    max_prompt_length: int | None = None,
    max_completion_length: int | None = None,
    max_length: int | None = None,
) -> dict[str, Any]:
    """Prompts cut from the left, completions from the right.

    row: `prompt_ids` with `completion_ids`, or with `chosen_ids` and `rejected_ids`; or `input_ids`
        with a `completion_mask` that is 0 along the prompt and 1 from the completion on.
    max_prompt_length, max_completion_length: limits of each part, in tokens.
    max_length: limit of prompt and completion together (with the longer completion, of a pair).
        The prompt gives way first, down to its last token, then the completion.

    Returns the columns that were read. ValueError for a row whose completion is empty: nothing can
    be learned from it, and a limit never makes one; and for a batch of rows (``batched=True``).
    """
    if max_prompt_length is not None:
        max_prompt_length = whole_number("max_prompt_length", max_prompt_length, 1, "token")
    if max_completion_length is not None:
        max_completion_length = whole_number(
            "max_completion_length", max_completion_length, 1, "token"
        )
    if max_length is not None:
        max_length = whole_number("max_length", max_length, 2, "tokens, one of each part")
    limits = (max_prompt_length, max_completion_length, max_length)
    if "prompt_ids" in row:
        return _cut_separate(row, limits)
    if "input_ids" in row and "completion_mask" in row:
        return _cut_joined(row, limits)
    raise ValueError(
        f"a row needs prompt_ids with completion_ids, chosen_ids or rejected_ids, or input_ids "
        f"with completion_mask; it has {', '.join(map(repr, row))}. Tokenize first."
    )


def truncate_text(
    row: Row, *, tokenizer: Any, max_length: int | None, column: str = "prompt", keep: Keep = "end"
) -> dict[str, Any]:
    """The text in ``column`` cut to ``max_length`` tokens, for trainers that tokenize themselves.

    The cut is made in the text where a token begins or ends, so nothing is decoded and what stays
    is unchanged. Needs a fast tokenizer. A conversation passes as it is if its templated tokens
    are within the limit; ValueError if they are not, since a cut would break the template.
    Without a limit (``max_length=None``) every row passes.
    """
    if column not in row:
        raise ValueError(
            f"a row has no column {column!r} but {', '.join(map(repr, row))}. Where chosen and "
            f"rejected share their beginning instead of a prompt column, "
            f"memlint_runtime.limit_prompts cuts it in the trainer."
        )
    text = row[column]
    if max_length is None:
        return {column: text}
    max_length = whole_number("max_length", max_length, 1, "token")
    _require_keep(keep)
    if not isinstance(text, str):
        return {column: _require_short(text, tokenizer, max_length, column)}
    if not getattr(tokenizer, "is_fast", False):
        raise ValueError(
            f"{type(tokenizer).__name__} does not say where its tokens are in the text; load the "
            f"fast tokenizer (use_fast=True)."
        )
    encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    spans = encoded["offset_mapping"]
    if len(spans) <= max_length:
        return {column: text}
    return {
        column: text[: spans[max_length - 1][1]]
        if keep == "start"
        else text[spans[-max_length][0] :]
    }


def _require_short(messages: Any, tokenizer: Any, max_length: int, column: str) -> Any:
    """The conversation itself, where its template gives no more than ``max_length`` tokens."""
    if not (isinstance(messages, list) and messages and isinstance(messages[0], Mapping)):
        raise ValueError(
            f"column {column!r} holds {type(messages).__name__}, neither text nor a "
            f"conversation. Where it holds a batch, call dataset.map without batched=True."
        )
    ids = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
    if len(ids) > max_length:
        raise ValueError(
            f"a conversation in column {column!r} has {len(ids)} tokens, {max_length} allowed, and "
            f"cannot be cut: that would break its template. Filter such rows out, drop messages, "
            f"or cut tokens in the trainer as TRL did (memlint_runtime.limit_prompts)."
        )
    return messages


def _require_keep(keep: str) -> None:
    if keep not in ("start", "end"):
        raise ValueError(f'keep must be "start" or "end", got {keep!r}.')


def _require_tokens(name: str, values: Any) -> None:
    """Raise where a row's column is no flat list: a batch cut as one row would lose its rows."""
    if not hasattr(values, "__len__") or isinstance(values, str):
        raise ValueError(
            f"{name} must be a flat list of token ids, got {values!r}. Tokenize first."
        )
    if holds_rows(values):
        raise ValueError(
            f"{name} holds lists, not token ids: one row is cut at a time. Call dataset.map "
            f"without batched=True, and flatten a tensor of [1, L]."
        )


def _columns_along(row: Row) -> dict[str, Any]:
    if "input_ids" not in row:
        raise ValueError(
            f"a row has no 'input_ids' but {', '.join(map(repr, row))}. Tokenize first."
        )
    if "seq_lengths" in row:
        raise ValueError("the row is packed; truncate before packing.")
    _require_tokens("input_ids", row["input_ids"])
    columns = {name: row[name] for name in _ALONG if row.get(name) is not None}
    for name, values in columns.items():
        if len(values) != len(columns["input_ids"]):
            raise ValueError(
                f"{name} has {len(values)} entries, input_ids has {len(columns['input_ids'])}."
            )
    return columns


def _has_target(columns: Mapping[str, Any]) -> bool:
    """True if a token is left that a loss would learn from."""
    if "labels" in columns:
        return any(label != _IGNORED_LABEL for label in columns["labels"])
    masks = [columns[name] for name in ("completion_mask", "assistant_masks") if name in columns]
    return all(any(mask) for mask in masks)


_Limits = tuple[int | None, int | None, int | None]


def _kept(prompt: int, completion: int, limits: _Limits) -> tuple[int, int]:
    """Tokens of prompt and completion that stay."""
    max_prompt, max_completion, max_length = limits
    prompt = prompt if max_prompt is None else min(prompt, max_prompt)
    completion = completion if max_completion is None else min(completion, max_completion)
    if max_length is not None and prompt + completion > max_length:
        prompt = min(prompt, max(1, max_length - completion))
        completion = min(completion, max_length - prompt)
    return prompt, completion


def _cut_separate(row: Row, limits: _Limits) -> dict[str, Any]:
    names = [name for name in _COMPLETIONS if name in row]
    if not names:
        raise ValueError(
            f"a row with prompt_ids needs completion_ids, chosen_ids or rejected_ids; it has "
            f"{', '.join(map(repr, row))}."
        )
    for name in ("prompt_ids", *names):
        _require_tokens(name, row[name])
    for name in names:
        _require_completion(name, len(row[name]))
    prompt = row["prompt_ids"]
    # Of a pair, the longer side decides how much prompt both have: the sides share it.
    longest = max(len(row[name]) for name in names)
    prompt_kept, completion_kept = _kept(len(prompt), longest, limits)
    cut = {name: row[name][:completion_kept] for name in names}
    return {"prompt_ids": prompt[len(prompt) - prompt_kept :], **cut}


def _cut_joined(row: Row, limits: _Limits) -> dict[str, Any]:
    columns = _columns_along(row)
    mask = list(columns["completion_mask"])
    prompt = mask.index(1) if 1 in mask else len(mask)
    if 0 in mask[prompt:]:
        raise ValueError(
            "completion_mask is 0 again behind the completion, so where the prompt ends is not "
            "clear. Use truncate for conversations of several turns."
        )
    completion = len(mask) - prompt
    _require_completion("completion_mask", completion)
    prompt_kept, completion_kept = _kept(prompt, completion, limits)
    part = slice(prompt - prompt_kept, prompt + completion_kept)
    return {name: values[part] for name, values in columns.items()}


def _require_completion(name: str, tokens: int) -> None:
    if not tokens:
        raise ValueError(
            f"a row's completion is empty ({name}): nothing can be learned from it. Filter such "
            f"rows out first."
        )
