"""Methods of models that warn of their end: they have another name now."""

import ast
from collections.abc import Iterator

from memlint.rule import Finding, Script, Span, edits, fix, is_guarded

_MODEL = "transformers.PreTrainedModel"
# Methods of models, and keywords of theirs, that have a new name.
_METHODS = {
    "gradient_checkpointing_enable": "activation_checkpointing_enable",
    "gradient_checkpointing_disable": "activation_checkpointing_disable",
}
_KEYWORDS = {"gradient_checkpointing_kwargs": "activation_checkpointing_kwargs"}


def deprecated_methods(script: Script) -> Iterator[Finding]:
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
