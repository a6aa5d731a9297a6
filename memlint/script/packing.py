"""What else shapes a run whose rows hold several documents: learned prompts, own attention."""

from __future__ import annotations

from memlint.flow.evaluated import query
from memlint.script.calls import Host

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


@query
def learns_prompts(script: Host) -> bool:
    """True if an adapter of learned tokens is trained. PEFT throws positions away for them, which
    alone keep the documents of a row apart."""
    imported = any(full in _PROMPT_LEARNING for _, _, full in script.imports)
    return imported or bool(script.calls_anywhere(*_PROMPT_LEARNING))


@query
def sets_attention(script: Host) -> bool:
    """True if the script changes a model's attention by other means than its loading."""
    if script.method_calls_anywhere(*ATTENTION_SETTERS):
        return True
    return any(_IMPLEMENTATION in name for name in script.attribute_names)
