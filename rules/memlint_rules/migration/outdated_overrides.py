"""Methods that the target's Trainer calls with more than a script's override takes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from memlint.rule import Finding, Fix, Script, Span, edits, facts, fix

# Methods of Trainer that scripts override, and what the Trainer gives them since.
_GIVEN = {
    "compute_loss": "num_items_in_batch",
    "training_step": "num_items_in_batch",
    "log": "start_time",
}
# To look for it in the text spares most scripts a walk.
_OVERRIDES = re.compile(rb"\bdef\s+(?:%s)\b" % "|".join(_GIVEN).encode())


def outdated_overrides(script: Script) -> Iterator[Finding]:
    """A ``compute_loss`` that cannot be called as the target's Trainer calls it."""
    given = _given_at_target(script)
    for definition in script.classes if given else ():
        library = _library_trainer(script, definition)
        for method in definition.body if library is not None else ():
            if not isinstance(method, ast.FunctionDef) or method.name not in given:
                continue
            parameter = given[method.name]
            if library is None or _takes(method, parameter):
                continue
            start = script.span(method).start
            yield Finding(
                Span(start, start + len(f"def {method.name}".encode())),
                f"`{method.name}` is called with `{parameter}`, which it does not take",
                _override_fix(script, definition, method, parameter, library),
            )


def _given_at_target(script: Script) -> dict[str, str]:
    """The methods that the script defines, with what the target's Trainer gives them."""
    if not _OVERRIDES.search(script.source.data):
        return {}
    defined = facts.functions_defined(script)
    return {
        method: parameter
        for method, parameter in _GIVEN.items()
        if method in defined
        and (signature := script.api.signature(f"transformers.Trainer.{method}")) is not None
        and parameter in signature.parameters
    }


def _library_trainer(script: Script, definition: ast.ClassDef) -> str | None:
    """The library's trainer that a class is made after."""
    for base in definition.bases:
        name = script.name(base)
        if name and script.api.is_a(name, "transformers.Trainer"):
            return name
    return None


def _takes(method: ast.FunctionDef, parameter: str) -> bool:
    """True if a method can be given what the Trainer gives it."""
    arguments = method.args
    if parameter in {one.arg for one in (*arguments.args, *arguments.kwonlyargs)}:
        return True
    # The Trainer gives it by position, but for ``compute_loss``.
    by_position = arguments.vararg is not None and method.name != "compute_loss"
    return by_position or arguments.kwarg is not None


def _override_fix(
    script: Script,
    definition: ast.ClassDef,
    method: ast.FunctionDef,
    parameter: str,
    library: str,
) -> Fix:
    """The parameter, and where a loss is computed: that it is a mean still to be divided.

    A Trainer whose model takes ``num_items_in_batch`` believes that ``compute_loss`` has divided by
    it. A method that never saw the number has not: without a word of ours the gradients would be
    ``gradient_accumulation_steps`` times too large.
    """
    changes: tuple[edits.Edit, ...] = (edits.AddParameter(script.span(method), parameter, "None"),)
    message = f"Add the parameter `{parameter}=None`"
    if method.name != "compute_loss" or _SCALED in facts.attributes_of_class(definition):
        return fix(message, changes)
    attributes = script.api.attributes("transformers.Trainer")
    if attributes is None or _SCALED not in attributes or not library.startswith("transformers."):
        # Which loss the target divides cannot be told it from here.
        return fix(message, changes, unsafe=True)
    source = f"{_SCALED} = False  # the mean of a batch, not of all that are accumulated\n"
    line = edits.InsertStatement(script.span(method), source, "before")
    return fix(f"{message}, and say that the loss is a mean of its batch", (line, *changes))


_SCALED = "loss_is_scaled_for_ga"
