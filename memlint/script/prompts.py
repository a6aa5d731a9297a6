"""Prompts that a trainer forwards once for each of their answers, and how long they are at most."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from memlint.script.calls import Trainer
from memlint.script.values import Object, Symbol

if TYPE_CHECKING:
    from memlint.script.model import Script


def repeating_trainers(script: Script, kinds: tuple[str, ...]) -> Iterator[Trainer]:
    """Trainers of TRL that forward a prompt once for each of its answers, and need not.

    Images keep the runtime from sharing prompts; a toy model has nothing to save.
    """
    if script.uses_vision or _has_images(script):
        return
    for trainer in script.training:
        if trainer.kind not in kinds or trainer.shares_prompts or trainer.model.is_toy:
            continue
        if script.api.exists(trainer.kind) is not False and not _gets_processor(script, trainer):
            yield trainer


def _has_images(script: Script) -> bool:
    """Whether the script names a column of images: the processor may be the trainer's own."""
    return script.says("image") and any(
        node.value in ("image", "images") for node in script.nodes(ast.Constant)
    )


def _gets_processor(script: Script, trainer: Trainer) -> bool:
    """Whether what prepares its inputs is called a processor: more than text goes in."""
    given = trainer.keyword_node("processing_class")
    return given is not None and "processor" in script.text(given.value).lower()


def prompt_limit(script: Script, trainer: Trainer) -> int | None:
    """How long prompts are at most, where the configuration or the data's preparation says so."""
    found = trainer.number("max_prompt_length")
    return found if found is not None else _limit_in_data(script)


def _limit_in_data(script: Script) -> int | None:
    """The limit that ``limit_prompts(GRPOTrainer, ...)`` or the data's preparation,
    ``dataset.map(truncate_text, fn_kwargs={...})``, cuts prompts to."""
    for call in script.calls_to("memlint_runtime.limit_prompts"):
        value = script.python(call.node.args[1]) if len(call.node.args) > 1 else None
        return value if type(value) is int else None
    for call in script.method_calls("map"):
        function = call.argument(0)
        mapping = call.setting("fn_kwargs").value
        if (
            isinstance(function, Symbol)
            and function.name == "memlint_runtime.truncate_text"
            and isinstance(mapping, Object)
        ):
            value = script.item(mapping, "max_length")
            return value if type(value) is int else None
    return None


def completions_together(script: Script) -> int | None:
    """How many completions ``generate`` draws for one prompt; None where that is one or unknown."""
    found = {
        value
        for call in script.method_calls("generate", "GenerationConfig")
        for value in (call.setting("num_return_sequences").value,)
        if type(value) is int and value > 1
    }
    return found.pop() if len(found) == 1 else None
