"""`max_prompt_length` for TRL's trainers that no longer have it.

    trainer = limit_prompts(DPOTrainer, max_prompt_length=512)(model, args=args, ...)

What: a subclass of the trainer's class, same arguments, whose prompts are cut as TRL cut them while
it had the option: after templates and special tokens, so that it is the same for prompts of their
own column, prompts that chosen and rejected share, texts and conversations.

- DPO: every prompt to its last tokens, before rows are dropped that `max_length` leaves nothing of.
- KTO, ORPO and CPO: prompts of rows longer than `max_length`; then what is still too long of the
  completions, to `max_length - max_prompt_length`. KTO's prompts keep their first special token.
- GRPO and RLOO: every prompt to its last tokens, for generation and for training.

Cost: a pass over the tokenized dataset. Tested with trl 1.16; a method of TRL with other parameters
is an error. Prompts that hold images are refused: their places in the tokens cannot be cut.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, cast

from memlint_runtime.integrations.modes import require_parameters
from memlint_runtime.quantities import whole_number

__all__ = ["limit_prompts"]

Row = dict[str, Any]
_IGNORED_LABEL = -100
_NO_LIMIT = 2**62

_T = TypeVar("_T", bound=type)


@dataclass(frozen=True)
class _Limits:
    """Tokens of a prompt and, for DPO, of a completion, and which end of a prompt stays."""

    prompt: int | None
    completion: int | None
    keep: Literal["start", "end"]

    def cut_prompt(self, ids: list[int]) -> list[int]:
        if self.prompt is None or len(ids) <= self.prompt:
            return ids
        return ids[: self.prompt] if self.keep == "start" else ids[-self.prompt :]


def limit_prompts(
    trainer_class: _T,
    max_prompt_length: int | None,
    *,
    max_completion_length: int | None = None,
    keep: Literal["start", "end"] = "end",
) -> _T:
    """A subclass of a TRL trainer's class that cuts prompts to so many tokens.

    Args:
        trainer_class: TRL's DPO, KTO, ORPO, CPO, GRPO or RLOO trainer, or a subclass of one.
        max_prompt_length: most tokens of a prompt. With None the class itself is returned.
        max_completion_length: most tokens of a completion, which are cut at their end; DPO alone.
        keep: the end of a prompt that stays; TRL's `truncation_mode` without `keep_`.

    Raises ValueError for other classes and for limits below 1 token; the trainer that is made, for
    prompts with images.
    """
    if max_prompt_length is not None:
        max_prompt_length = whole_number("max_prompt_length", max_prompt_length, 1, "token")
    if max_completion_length is not None:
        max_completion_length = whole_number(
            "max_completion_length", max_completion_length, 1, "token"
        )
    if keep not in ("start", "end"):
        raise ValueError(f'keep must be "start" or "end", got {keep!r}.')
    if max_prompt_length is None and max_completion_length is None:
        return trainer_class
    limits = _Limits(max_prompt_length, max_completion_length, keep)
    family = _family(trainer_class)
    if max_completion_length is not None and family != "DPOTrainer":
        raise ValueError(
            f"max_completion_length is a limit of DPO's, got {trainer_class.__name__}: set the "
            "option of that name in its configuration."
        )
    methods = _METHODS[family](trainer_class, limits)
    return cast("_T", type(trainer_class.__name__, (trainer_class,), methods))


def _family(trainer_class: type) -> str:
    """The trainer of TRL that a class is, or is derived from."""
    if isinstance(trainer_class, type):
        for base in trainer_class.__mro__:
            if base.__module__.startswith("trl.") and base.__name__ in _METHODS:
                return base.__name__
    got = getattr(trainer_class, "__name__", None) or type(trainer_class).__name__
    raise ValueError(
        f"limit_prompts takes the class of a TRL trainer ({', '.join(_METHODS)}), got {got}."
    )


# -- DPO and KTO: a tokenized dataset of prompt_ids and completions --------------------------------


def _prepares_dataset(
    trainer_class: Any, prepare: Callable[[Any, Any, Any], Any]
) -> dict[str, Any]:
    wanted = ("self", "dataset", "processing_class", "args", "dataset_name")
    require_parameters(trainer_class, {"_prepare_dataset": wanted})

    def _prepare_dataset(
        self: Any, dataset: Any, processing_class: Any, args: Any, dataset_name: str
    ) -> Any:
        whole = copy.copy(args)
        whole.max_length = None  # rows are dropped by their cut length, below
        tokenized = trainer_class._prepare_dataset(
            self, dataset, processing_class, whole, dataset_name
        )
        return prepare(self, tokenized, args)

    def __init__(  # noqa: N807 (it becomes a class's)
        self: Any, *args: Any, **kwargs: Any
    ) -> None:
        trainer_class.__init__(self, *args, **kwargs)
        if getattr(self, "_is_vision_dataset", False):
            raise _images()

    return {"_prepare_dataset": _prepare_dataset, "__init__": __init__}


def _dpo(trainer_class: Any, limits: _Limits) -> dict[str, Any]:
    def prepare(trainer: Any, dataset: Any, args: Any) -> Any:
        dataset = dataset.map(_cut_pair, fn_kwargs={"limits": limits})
        if args.max_length is not None and args.truncation_mode == "keep_start":
            dataset = dataset.filter(_leaves_room, fn_kwargs={"tokens": args.max_length})
        return dataset

    return _prepares_dataset(trainer_class, prepare)


def _cut_pair(row: Row, limits: _Limits) -> Row:
    sides = ("chosen_ids", "rejected_ids")
    cut = {side: row[side][: limits.completion] for side in sides}
    return {"prompt_ids": limits.cut_prompt(row["prompt_ids"]), **cut}


def _kto(trainer_class: Any, limits: _Limits) -> dict[str, Any]:
    def prepare(trainer: Any, dataset: Any, args: Any) -> Any:
        tokenizer = getattr(trainer, "_tokenizer", None)
        first = getattr(tokenizer, "bos_token_id", None)
        if args.max_length is not None:
            options = {"limits": limits, "max_length": args.max_length, "first": first}
            dataset = dataset.map(_cut_unpaired, fn_kwargs=options)
            dataset = dataset.filter(_leaves_room, fn_kwargs={"tokens": args.max_length})
        if trainer.calculate_KL:
            # Anew, since the completions may have been cut and rows dropped.
            batch = args.per_device_train_batch_size
            dataset = dataset.map(_pair_with_others, batched=True, batch_size=batch)
        return dataset

    return _prepares_dataset(trainer_class, prepare)


def _cut_unpaired(row: Row, limits: _Limits, max_length: int, first: int | None) -> Row:
    prompt, completion = row["prompt_ids"], row["completion_ids"]
    assert limits.prompt is not None
    if len(prompt) + len(completion) > max_length:
        kept = prompt[:1] if first is not None and prompt[:1] == [first] else []
        prompt = kept + limits.cut_prompt(prompt[len(kept) :])
    if len(prompt) + len(completion) > max_length:
        completion = completion[: max(max_length - limits.prompt, 0)]
    return {"prompt_ids": prompt, "completion_ids": completion}


def _pair_with_others(batch: Row) -> Row:
    completions = batch["completion_ids"]
    return {"KL_completion_ids": [completions[-1], *completions[:-1]]}


def _leaves_room(row: Row, tokens: int) -> bool:
    return len(row["prompt_ids"]) < tokens


# -- ORPO and CPO: a row tokenized by a method -----------------------------------------------------


def _odds(trainer_class: Any, limits: _Limits) -> dict[str, Any]:
    require_parameters(trainer_class, {"tokenize_row": ("self", "feature", "model")})

    def tokenize_row(self: Any, feature: Row, model: Any = None) -> Row:
        if self.is_encoder_decoder:
            return cast("Row", trainer_class.tokenize_row(self, feature, model))
        max_length, self.max_length = self.max_length, _NO_LIMIT
        try:
            row = trainer_class.tokenize_row(self, feature, model)
        finally:
            self.max_length = max_length
        return _cut_odds(row, limits, max_length)

    return {"tokenize_row": tokenize_row}


def _cut_odds(row: Row, limits: _Limits, max_length: int) -> Row:
    """`row` has `input_ids`, `attention_mask` and `labels` (-100 on the prompt) of each side."""
    assert limits.prompt is not None
    sides = ("chosen", "rejected")
    prompts = {side: _prompt_tokens(row[f"{side}_labels"]) for side in sides}
    longest = max(len(row[f"{side}_input_ids"]) - prompts[side] for side in sides)
    cut = dict(row)
    for side in sides:
        prompt = prompts[side]
        kept = prompt if prompt + longest <= max_length else min(prompt, limits.prompt)
        answer = longest if kept + longest <= max_length else max(max_length - limits.prompt, 0)
        start = prompt - kept if limits.keep == "end" else 0
        for column in ("input_ids", "attention_mask", "labels"):
            values = row[f"{side}_{column}"]
            cut[f"{side}_{column}"] = (
                values[start : start + kept] + values[prompt : prompt + answer]
            )
    ids = row["prompt_input_ids"]
    if len(ids) + longest > max_length:
        cut["prompt_input_ids"] = limits.cut_prompt(ids)
        cut["prompt_attention_mask"] = limits.cut_prompt(row["prompt_attention_mask"])
    return cut


def _prompt_tokens(labels: list[int]) -> int:
    return next((i for i, label in enumerate(labels) if label != _IGNORED_LABEL), len(labels))


# -- GRPO and RLOO: prompts tokenized when they are drawn ------------------------------------------


def _online(trainer_class: Any, limits: _Limits) -> dict[str, Any]:
    require_parameters(trainer_class, {"_tokenize_prompts": ("self", "prompts")})

    def _tokenize_prompts(self: Any, prompts: list[Any]) -> Any:
        ids, images, fields = trainer_class._tokenize_prompts(self, prompts)
        if images is not None or fields:
            raise _images()
        return [limits.cut_prompt(list(one)) for one in ids], images, fields

    return {"_tokenize_prompts": _tokenize_prompts}


def _images() -> ValueError:
    return ValueError(
        "prompts with images cannot be cut to a number of tokens: the images' places would be cut "
        "with them. Filter long rows out of the dataset, or make the images smaller."
    )


_METHODS: dict[str, Callable[[Any, _Limits], dict[str, Any]]] = {
    "DPOTrainer": _dpo,
    "KTOTrainer": _kto,
    "ORPOTrainer": _odds,
    "CPOTrainer": _odds,
    "GRPOTrainer": _online,
    "RLOOTrainer": _online,
}
