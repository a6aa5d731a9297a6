"""Which supervised fine-tuning runs put several documents in a row."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memlint.script.calls import Config
    from memlint.script.model import Script

_PROMPT_LEARNING = (
    *("peft.CPTConfig", "peft.MultitaskPromptTuningConfig", "peft.PrefixTuningConfig"),
    *("peft.PromptEncoderConfig", "peft.PromptTuningConfig"),
)
ATTENTION_SETTERS = (
    "set_attn_implementation",
    "use_variable_length_attention",
    "train_without_padding",
)
_IMPLEMENTATION = "_attn_implementation"


def packing_strategy(config: Config) -> str | None:
    """The packing strategy that a configuration sets, ``padding_free`` for that alone.

    None where neither is on.
    """
    if config.setting("packing").value is True:
        if not config.has_option("packing_strategy"):
            return "wrapped"
        strategy = config.settled("packing_strategy").value
        return strategy if isinstance(strategy, str) else None
    if config.setting("padding_free").value is True and config.has_option("padding_free"):
        return "padding_free"
    return None


def learns_prompts(script: Script) -> bool:
    """True if an adapter of learned tokens is trained. PEFT throws positions away for them, which
    alone keep the documents of a row apart."""
    imported = any(full in _PROMPT_LEARNING for _, _, full in script.imports)
    return imported or bool(script.calls_to(*_PROMPT_LEARNING))


def sets_attention(script: Script) -> bool:
    """True if the script changes a model's attention by other means than its loading."""
    if script.method_calls(*ATTENTION_SETTERS):
        return True
    return any(_IMPLEMENTATION in node.attr for node in script.nodes(ast.Attribute))
