"""Methods of models that warn of their end: they have another name now."""

import ast
from collections.abc import Iterator

from memlint.rule import Finding, Object, Script, Span, edits, fix, is_guarded

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
            made = call.receiver
            if not (isinstance(made, Object) and (made.type or "").startswith("transformers.")):
                continue
            if call.node.args or made.root.cls is not None:
                continue
            end = script.span(function).end
            keywords = tuple(
                edits.RenameKeyword(call.span, name, _KEYWORDS[name])
                for name in call.keywords
                if name in _KEYWORDS
            )
            yield Finding(
                Span(end - len(old.encode()), end),
                f"`{old}` is deprecated in {script.api.at_target(_MODEL)}",
                fix(
                    f"Call `{new}`", (edits.RenameAttribute(script.span(function), new), *keywords)
                ),
            )
