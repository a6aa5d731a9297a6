"""Defaults that are computed when the library is imported, and where keywords are handed on to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memlint.api.lookup import Api


@dataclass(frozen=True, slots=True)
class Forwarded:
    """A method of ``owner`` that hands its ``**kwargs`` to ``to``."""

    owner: str
    to: str


FORWARDED: Mapping[str, Forwarded] = {
    # AutoModelFor*.from_pretrained picks a model class and calls its from_pretrained.
    "from_pretrained": Forwarded(
        "transformers.models.auto.auto_factory._BaseAutoModelClass",
        "transformers.PreTrainedModel.from_pretrained",
    ),
}


@dataclass(frozen=True, slots=True)
class MendedDefault:
    """The default ``expression`` of ``owner``'s ``parameter``, where the table cannot compute it.

    before: value below torch ``torch``; since: from there on.
    """

    owner: str
    parameter: str
    expression: str
    torch: tuple[int, int]
    before: object
    since: object

    def value(self, api: Api) -> object:
        return self.since if api.version("torch").minor >= self.torch else self.before


MENDED_DEFAULTS: tuple[MendedDefault, ...] = (
    # transformers/training_args.py: the fused optimizer is chosen from torch 2.8 on.
    MendedDefault(
        "transformers.TrainingArguments",
        "optim",
        "default_optim",
        (2, 8),
        "adamw_torch",
        "adamw_torch_fused",
    ),
)
