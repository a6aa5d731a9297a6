"""An option or a method that still works at the target version and warns of its end."""

import ast
from collections.abc import Iterator
from functools import partial

from memlint.rule import (
    Call,
    Finding,
    How,
    Level,
    Rule,
    Script,
    Setting,
    Span,
    edits,
    fix,
    is_guarded,
    triggers,
)
from memlint_rules.migration.calls_at_target import (
    calls_of_libraries,
    of_settings,
    settings_of_library,
)
from memlint_rules.migration.option_places import option_span, plain_value, successor_of
from memlint_rules.migration.recipe_keys import deprecated_keys
from memlint_rules.migration.succession import option_fix

_MODEL = "transformers.PreTrainedModel"
# Methods of models, and keywords of theirs, that have a new name.
_METHODS = {
    "gradient_checkpointing_enable": "activation_checkpointing_enable",
    "gradient_checkpointing_disable": "activation_checkpointing_disable",
}
_KEYWORDS = {"gradient_checkpointing_kwargs": "activation_checkpointing_kwargs"}


def check(script: Script) -> Iterator[Finding]:
    for call in calls_of_libraries(script):
        notable = list(settings_of_library(call))
        beside = [one.name for one in call.settings() if one.given is not False] if notable else []
        yield from of_settings(script, call, notable, partial(_deprecated, beside))
    yield from _deprecated_methods(script)


def _deprecated(
    beside: list[str], script: Script, call: Call, setting: Setting
) -> Iterator[Finding]:
    # Warnings come from constructors; what is assigned later warns of nothing.
    is_given_here = setting.owner is not None and setting.how is not How.ATTRIBUTE
    value = plain_value(setting)
    if not is_given_here or not script.api.warns(call.name, setting.name, *value, beside=beside):
        return
    package = script.api.deprecated_by(call.name, setting.name)
    shown = f"`{setting.name}`"
    if not script.api.warns(call.name, setting.name):
        shown = f"`{setting.name}={setting.value!r}`"
    yield Finding(
        option_span(script, call, setting),
        f"{shown} is deprecated in {script.api.at_target(package)}",
        option_fix(script, call, setting, successor_of(script, call, setting)),
    )


def _deprecated_methods(script: Script) -> Iterator[Finding]:
    """Calls of methods of models that have a new name at the target."""
    for old, new in _METHODS.items():
        if script.api.signature(f"{_MODEL}.{new}") is None:
            continue
        for call in script.method_calls(old):
            function = call.node.func
            if not isinstance(function, ast.Attribute) or is_guarded(script, call.node):
                continue
            if call.node.args or not _is_of_library(script, function.value):
                continue
            end = script.span(function).end
            keywords = [name for name in call.keywords if name in _KEYWORDS]
            changes: tuple[edits.Edit, ...] = (
                edits.RenameAttribute(script.span(function), new),
                *(edits.RenameKeyword(call.span, name, _KEYWORDS[name]) for name in keywords),
            )
            yield Finding(
                Span(end - len(old.encode()), end),
                f"`{old}` is deprecated in {script.api.at_target(_MODEL)}",
                fix(f"Call `{new}`", changes),
            )


def _is_of_library(script: Script, model: ast.expr) -> bool:
    """True if a model, or what it is a part of, certainly is of a class of transformers."""
    facts = script.model_facts(script.value(model))
    if isinstance(model, ast.Attribute) and not facts.objects:
        return _is_of_library(script, model.value)
    names = [load.name for load in facts.loads if not load.name.endswith("Trainer")]
    own = len(names) < len(facts.loads) or any(one.cls is not None for one in facts.objects)
    return bool(names) and not own and all(name.startswith("transformers.") for name in names)


RULE = Rule(
    level=Level.NOTICE,
    summary="an option that warns of its end in the target version",
    check=check,
    of_recipe=deprecated_keys,
    triggers=(triggers.LIBRARIES,),
)
