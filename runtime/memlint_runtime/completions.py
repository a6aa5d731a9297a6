"""Learning from responses alone, found in a sequence of tokens by the templates before them.

    collator = DataCollatorForCompletionOnlyLM("### Answer:", tokenizer=tokenizer)
    trainer = SFTTrainer(model, args=args, train_dataset=dataset, data_collator=collator)

What: the collator of that name, which TRL had until 0.20, for rows of token ids.
Why: scripts whose data is one text with both sides in it learn from the response by looking for
what stands before it. Data with prompt and completion columns needs no collator.
Cost: a template may be tokenized differently within a text than alone. Where the ids are not found
the text is searched, by decoding the row: a millisecond or two a row.

What is better than it was: templates given as text need no care for the tokens at their borders;
turns are told apart without a loop over tokens; and the end-of-sequence token can be learned where
it pads, too (``learn_padding_token``): as the collator was, a model whose tokenizer pads with it
never learns to stop.

B rows, T tokens.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from memlint_runtime.collation import IGNORED_LABEL, PaddingFreeCollator, flatten, read_row

__all__ = ["DataCollatorForCompletionOnlyLM"]

# No token has this id, so that padding matches no template.
_NO_TOKEN = -1


@dataclass
class DataCollatorForCompletionOnlyLM:
    """Rows with `input_ids` to a padded batch whose labels name the responses alone.

    response_template: what stands before a response, as text or as token ids.
    instruction_template: what stands before an instruction. With it every response between a
        response template and the next instruction is learned; without it, what follows the last
        response template of a row.
    tokenizer: gives the padding token (else the end-of-sequence token) and the side to pad, and
        the ids of templates that are text.
    ignore_index: the label of what is not learned.
    padding_free: flatten the rows to one of ``[1, T]`` as `PaddingFreeCollator` does.
    pad_to_multiple_of: T is filled up to a multiple of this.
    learn_padding_token: learn the padding token where a response itself has it, as it has its
        end where the end-of-sequence token pads. Padding is never learned.

    Returns `input_ids`, `attention_mask` and `labels` ``[B, T]``; with ``padding_free`` what
    `PaddingFreeCollator` returns. What a row's own `labels`, `completion_mask` or
    `assistant_masks` hide stays hidden. A row in which no template is found is hidden whole, with
    a warning.
    """

    response_template: str | Sequence[int]
    instruction_template: str | Sequence[int] | None = None
    tokenizer: Any = None
    mlm: bool = False
    ignore_index: int = IGNORED_LABEL
    padding_free: bool = False
    pad_to_multiple_of: int | None = None
    return_tensors: str = "pt"
    learn_padding_token: bool = False

    def __post_init__(self) -> None:
        if self.tokenizer is None:
            raise ValueError("the collator needs a tokenizer: pass tokenizer=tokenizer.")
        if self.mlm:
            raise ValueError("responses are learned token by token: mlm must be False.")
        if self.return_tensors != "pt":
            raise ValueError(f'return_tensors must be "pt", got {self.return_tensors!r}.')
        self._response_ids = self._ids("response_template", self.response_template)
        self._instruction_ids = (
            None
            if self.instruction_template is None
            else self._ids("instruction_template", self.instruction_template)
        )

    def _ids(self, name: str, template: str | Sequence[int]) -> Tensor:
        if isinstance(template, str):
            template = self.tokenizer.encode(template, add_special_tokens=False)
        ids = torch.as_tensor(template)
        if ids.ndim != 1 or not len(ids) or ids.is_floating_point():
            raise ValueError(f"{name} must be text or a flat list of token ids, got {template!r}.")
        return ids.long()

    def __call__(self, rows: Sequence[Mapping[str, Any] | Sequence[int]]) -> dict[str, Any]:
        if not rows:
            raise ValueError("a batch needs at least one row, got none.")
        ids: list[Tensor] = []
        labels: list[Tensor] = []
        for row in rows:
            named = row if isinstance(row, Mapping) else {"input_ids": row}
            row_ids, row_labels, documents = read_row(named)
            if len(documents) > 1:
                raise ValueError(
                    f"a row holds {len(documents)} packed sequences, whose templates cannot be "
                    f"told apart. Train without packing (packing=False); padding_free=True of "
                    f"this collator saves the padding instead."
                )
            ids.append(row_ids)
            labels.append(row_labels)
        padding = None if self.learn_padding_token else self._padding()
        for row_ids, row_labels, learned in zip(ids, labels, self._learned(ids), strict=True):
            row_labels[~learned] = IGNORED_LABEL
            if padding is not None:
                row_labels[row_ids == padding] = IGNORED_LABEL
        if self.padding_free:
            batch = self._flattened(ids, labels)
        else:
            batch = self._padded(ids, labels)
        if self.ignore_index != IGNORED_LABEL:
            hidden = batch["labels"] == IGNORED_LABEL
            batch["labels"] = batch["labels"].masked_fill(hidden, self.ignore_index)
        return batch

    # -- which tokens are learned ----------------------------------------------------------------

    def _learned(self, ids: list[Tensor]) -> list[Tensor]:
        """Which tokens of each row ``[L]`` belong to a response."""
        lengths = [len(row) for row in ids]
        table = torch.full((len(ids), max(lengths)), _NO_TOKEN)
        for at, row in enumerate(ids):
            table[at, : len(row)] = row
        # One place more than there are tokens: a response may have none.
        place = torch.arange(table.shape[1] + 1).expand(len(ids), -1)
        begins = self._places(table, ids, self.response_template, self._response_ids, at_end=True)
        rows_without = ~begins.any(1)
        last_begin = torch.where(begins, place, -1).cummax(1).values
        if self._instruction_ids is None:
            learned = begins.any(1, keepdim=True) & (place >= last_begin[:, -1:])
        else:
            template = self.instruction_template
            ends = self._places(table, ids, template, self._instruction_ids, at_end=False)
            rows_without |= ~ends.any(1)
            last_end = torch.where(ends, place, -1).cummax(1).values
            learned = last_begin > last_end
        if bool(rows_without.any()):
            learned &= ~rows_without[:, None]
            self._warn()
        return [learned[at, :length] for at, length in enumerate(lengths)]

    def _places(
        self, table: Tensor, ids: list[Tensor], template: Any, own: Tensor, *, at_end: bool
    ) -> Tensor:
        """Where a template of the ids `own` begins, or ends, in each row, `[B, T + 1]`."""
        width = len(own) if at_end else 0
        places = torch.zeros(table.shape[0], table.shape[1] + 1, dtype=torch.bool)
        room = max(0, min(places.shape[1] - width, table.shape[1]))
        places[:, width : width + room] = _matches(table, own)[:, :room]
        for at in self._to_search(template, ids, places):
            spans = _in_text(self.tokenizer, ids[at], str(template))
            if len(spans) > int(places[at].sum()):
                places[at] = False
                places[at, [span[at_end] for span in spans]] = True
        return places

    def _to_search(
        self, template: str | Sequence[int] | None, ids: list[Tensor], found: Tensor
    ) -> list[int]:
        """Rows whose text is searched, too: those without a match, and where turns are told apart
        every row, since one turn may be tokenized as the template is and the next one not."""
        if not isinstance(template, str):
            return []
        turns = self.instruction_template is not None
        return [at for at in range(len(ids)) if turns or not bool(found[at].any())]

    def _warn(self) -> None:
        names = [repr(self.response_template)]
        if self.instruction_template is not None:
            names.append(repr(self.instruction_template))
        given = (self.response_template, self.instruction_template)
        ids_given = any(one is not None and not isinstance(one, str) for one in given)
        what = (
            "Give the templates as text: within a text they may be other tokens"
            if ids_given
            else "Compare the templates with a decoded row, and see that max_length does not cut "
            "the response off"
        )
        warnings.warn(
            f"no {' or no '.join(names)} in at least one row: nothing is learned from it. {what}.",
            stacklevel=4,
        )

    # -- batches ---------------------------------------------------------------------------------

    def _padded(self, ids: list[Tensor], labels: list[Tensor]) -> dict[str, Any]:
        multiple = self.pad_to_multiple_of or 1
        longest = max(len(row) for row in ids)
        longest += -longest % multiple
        shape = (len(ids), longest)
        batch = {
            "input_ids": torch.full(shape, self._padding()),
            "attention_mask": torch.zeros(shape, dtype=torch.long),
            "labels": torch.full(shape, IGNORED_LABEL),
        }
        left = getattr(self.tokenizer, "padding_side", "right") == "left"
        for at, (row, row_labels) in enumerate(zip(ids, labels, strict=True)):
            kept = slice(longest - len(row), None) if left else slice(len(row))
            batch["input_ids"][at, kept] = row
            batch["attention_mask"][at, kept] = 1
            batch["labels"][at, kept] = row_labels
        return batch

    def _flattened(self, ids: list[Tensor], labels: list[Tensor]) -> dict[str, Any]:
        options = PaddingFreeCollator(
            pad_to_multiple_of=self.pad_to_multiple_of,
            pad_token_id=self._padding() if self.pad_to_multiple_of else 0,
        )
        return flatten(ids, labels, [len(row) for row in ids], options)

    def _padding(self) -> int:
        for name in ("pad_token_id", "eos_token_id"):
            found = getattr(self.tokenizer, name, None)
            if isinstance(found, int):
                return found
        raise ValueError(
            "the tokenizer has neither a padding token nor an end-of-sequence token: set "
            "tokenizer.pad_token."
        )


def _matches(table: Tensor, template: Tensor) -> Tensor:
    """Where ``template`` ``[K]`` begins in the rows of ``table`` ``[B, T]``, ``[B, T]``."""
    found = torch.zeros_like(table, dtype=torch.bool)
    width = len(template)
    if table.shape[1] >= width:
        windows = table.unfold(1, width, 1)
        found[:, : windows.shape[1]] = (windows == template).all(-1)
    return found


def _in_text(tokenizer: Any, ids: Tensor, template: str) -> list[tuple[int, int]]:
    """Tokens from and to which ``template`` stands in the text of a row, ``(start, end)``.

    A token that reaches beyond the template belongs to it.
    """
    tokens = ids.tolist()

    def text(count: int) -> str:
        return str(
            tokenizer.decode(
                tokens[:count], skip_special_tokens=False, clean_up_tokenization_spaces=False
            )
        )

    whole = text(len(tokens))
    spans: list[tuple[int, int]] = []
    at = whole.find(template)
    while at >= 0:
        # What the first tokens decode to grows with their number: halve the range.
        start = _first(len(tokens), lambda count: len(text(count)) > at) - 1  # noqa: B023
        stop = at + len(template)
        end = _first(len(tokens), lambda count: len(text(count)) >= stop)  # noqa: B023
        spans.append((max(start, 0), end))
        at = whole.find(template, stop)
    return spans


def _first(high: int, holds: Any) -> int:
    """The smallest count up to ``high`` for which ``holds``, which stays true once it is."""
    low = 0
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle + 1
    return low
