"""Which supervised fine-tuning runs put several documents in a row, and what attends to them."""

from __future__ import annotations

import ast

from memlint.rule import (
    MISSING,
    Applicability,
    Config,
    Edit,
    Fix,
    InsertStatement,
    Object,
    Script,
    Trainer,
)

_OPTION = "attn_implementation"
_PROMPT_LEARNING = frozenset(
    {
        "CPTConfig",
        "MultitaskPromptTuningConfig",
        "PrefixTuningConfig",
        "PromptEncoderConfig",
        "PromptTuningConfig",
    }
)


def packs(config: Config) -> str | None:
    """The packing strategy that a configuration asks for, ``padding_free`` for that alone.

    None where neither is on.
    """
    if config.setting("packing").value is True:
        if not config.has_option("packing_strategy"):
            return "wrapped"
        strategy = config.effective("packing_strategy").value
        return strategy if isinstance(strategy, str) else None
    if config.setting("padding_free").value is True and config.has_option("padding_free"):
        return "padding_free"
    return None


def attention(script: Script, trainer: Trainer, config: Config) -> str | None:
    """The attention that a trainer's model surely uses: a name, or ``default``."""
    facts = trainer.model
    if facts.by_name:
        made = config.setting("model_init_kwargs")
        if made.given is False or made.is_none:
            return "default"
        if not isinstance(made.value, Object) or made.value.type != "dict":
            return None
        value = script.item(made.value, _OPTION)
        return "default" if value is MISSING else value if isinstance(value, str) else None
    load = facts.load
    if load is None or not load.name.startswith("transformers.") or load.setting("config").given:
        return None
    if load.setting("use_flash_attention_2").given is not False:
        return None
    setting = load.setting(_OPTION)
    if setting.given is False:
        return "default"
    return setting.value if isinstance(setting.value, str) else None


def learns_prompts(script: Script) -> bool:
    """Whether an adapter of learned tokens is trained: PEFT throws positions away for them, which
    alone tell the documents of a row apart."""
    return any(
        full.startswith("peft.") and full.rpartition(".")[2] in _PROMPT_LEARNING
        for _, _, full in script.imports
    ) or bool(script.calls_to(*(f"peft.{name}" for name in _PROMPT_LEARNING)))


def sets_attention_elsewhere(script: Script) -> bool:
    """Whether the script changes a model's attention by other means than its loading."""
    return bool(
        script.method_calls(
            "set_attn_implementation", "use_variable_length_attention", "train_without_padding"
        )
    ) or (
        script.says("_attn_implementation")
        and any("_attn_implementation" in node.attr for node in script.nodes(ast.Attribute))
    )


def call_after_trainer(script: Script, trainer: Trainer, qualname: str, what: str) -> Fix:
    """``what(trainer...)`` as a statement after the one that makes the trainer."""
    short = qualname.rpartition(".")[2]
    statement = script.statement(trainer.node)
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if value is trainer.node:
            argument = what.format(name)
        case _:
            argument = ""
    reference = script.reference(qualname, trainer.node)
    if not argument or reference is None or script.api.behaviour("runtime") != "tested":
        advice = f"Call `{qualname}({what.format('trainer')})` before training"
        return Fix(advice, (), Applicability.DISPLAY)
    edits: tuple[Edit, ...] = (
        InsertStatement(script.span(statement), f"{reference.text}({argument})", "after"),
        *reference.edits,
    )
    return Fix(f"Call `{short}({argument})` after the trainer is made", edits)
