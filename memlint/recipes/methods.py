"""How a recipe of TRL trains: by supervised fine-tuning, DPO, GRPO, ...

The recipe does not name its method; its keys do, where only some configurations have them. Words
in its path or its first comments decide among those that its keys leave. What stays open is
checked as each of them, and only what holds for all of them is reported.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from memlint.source import Source
from memlint.source.record import Record

if TYPE_CHECKING:
    from memlint.api.lookup import Api


class Method(Record):
    """A method of TRL. arguments: what its trainer takes besides model, arguments and data."""

    name: str
    config: str
    trainer: str
    model: str = "AutoModelForCausalLM"
    arguments: tuple[str, ...] = ()
    words: tuple[str, ...] = ()


_ONLINE = ("reward_funcs",)
METHODS = (
    Method("sft", "trl.SFTConfig", "trl.SFTTrainer", words=("sft",)),
    Method("dpo", "trl.DPOConfig", "trl.DPOTrainer", words=("dpo",)),
    Method("grpo", "trl.GRPOConfig", "trl.GRPOTrainer", arguments=_ONLINE, words=("grpo",)),
    Method("kto", "trl.KTOConfig", "trl.KTOTrainer", words=("kto",)),
    Method("orpo", "trl.ORPOConfig", "trl.ORPOTrainer", words=("orpo",)),
    Method("cpo", "trl.CPOConfig", "trl.CPOTrainer", words=("cpo", "simpo")),
    Method(
        "reward", "trl.RewardConfig", "trl.RewardTrainer", "AutoModelForSequenceClassification",
        words=("reward", "rm"),
    ),
    Method("rloo", "trl.RLOOConfig", "trl.RLOOTrainer", arguments=_ONLINE, words=("rloo",)),
)  # fmt: skip
_HEAD = re.compile(r"\A(?:[ \t]*(?:#[^\n]*)?\n)*")


def method_named(name: str) -> tuple[Method, ...]:
    """The method that TRL's command line, or a trainer's class, calls so; none if it is unknown."""
    return tuple(
        each for each in METHODS if each.name == name or each.trainer.rpartition(".")[2] == name
    )


def method_of_classes(classes: Sequence[str], api: Api) -> tuple[Method, ...]:
    """The method whose configuration is among classes that a recipe is read into; none where the
    recipe's program has classes of its own."""
    for name in classes:
        for each in METHODS:
            if api.canonical(each.config) == api.canonical(name):
                return (each,)
    for name in classes:
        if api.is_a(name, "transformers.Seq2SeqTrainingArguments"):
            return (Method("", name, "transformers.Seq2SeqTrainer"),)
        if api.is_a(name, "transformers.TrainingArguments"):
            return (Method("", name, "transformers.Trainer"),)
    return ()


def methods_of(source: Source, keys: Iterable[str], api: Api) -> tuple[Method, ...]:
    """The methods that a recipe with these keys may train by, most likely first; never empty."""
    options = {each.name: _own_options(api, each, keys) for each in METHODS}
    most = max(len(found) for found in options.values())
    likely = [each for each in METHODS if len(options[each.name]) == most]
    head = _HEAD.match(source.text)
    words = set(re.split(r"[^a-z]+", f"{source.path} {head[0] if head else ''}".lower()))
    named = [each for each in METHODS if words.intersection(each.words)]
    agreed = [each for each in named if each in likely]
    if len(agreed) == 1:
        return (agreed[0],)
    return tuple(dict.fromkeys([*likely, *named]))


def _own_options(api: Api, method: Method, keys: Iterable[str]) -> set[str]:
    """Those of ``keys`` that are options of the method's configuration and not of every one."""
    return {
        key
        for key in keys
        if api.history(method.config, key) is not None
        and api.history("transformers.TrainingArguments", key) is None
    }
