"""Methods that the target's Trainer calls with more than a script's override takes."""

import ast
from collections.abc import Iterator

from memlint.rule import Finding, Fix, Script, Span, edits, facts, fix

# Methods of Trainer that scripts override, and what the Trainer gives them since.
_GIVEN = {
    "compute_loss": "num_items_in_batch",
    "training_step": "num_items_in_batch",
    "log": "start_time",
}
# How many arguments it then gives by position, under whatever name; ``self`` included.
_BY_POSITION = {"training_step": 4, "log": 3}


def outdated_overrides(script: Script) -> Iterator[Finding]:
    """A ``compute_loss`` that cannot be called as the target's Trainer calls it."""
    for definition in script.classes:
        for method in definition.body:
            if not isinstance(method, ast.FunctionDef) or method.name not in _GIVEN:
                continue
            library = _library_trainer(script, definition)
            parameter = _given_at_target(script, method.name)
            if library is None or parameter is None or _takes(method, parameter):
                continue
            start = script.span(method).start
            yield Finding(
                Span(start, start + len(f"def {method.name}".encode())),
                f"`{method.name}` is called with `{parameter}`, which it does not take",
                _override_fix(script, definition, method, parameter, library),
            )


def _given_at_target(script: Script, method: str) -> str | None:
    """What the target's Trainer gives to a method."""
    signature = script.api.signature(f"transformers.Trainer.{method}")
    taken = signature.parameters if signature is not None else ()
    return _GIVEN[method] if _GIVEN[method] in taken else None


def _library_trainer(script: Script, definition: ast.ClassDef) -> str | None:
    """The library's trainer below a class; empty where one of the project's own is between."""
    for base in definition.bases:
        if script.api.is_a(facts.library_class(script, base), "transformers.Trainer"):
            return script.name(base) or ""
    return None


def _takes(method: ast.FunctionDef, parameter: str) -> bool:
    """True if a method can be given what the Trainer gives it."""
    arguments = method.args
    by_position = [*arguments.posonlyargs, *arguments.args]
    named = {one.arg for one in (*by_position, *arguments.kwonlyargs)}
    if parameter in named or arguments.kwarg is not None:
        return True
    least = _BY_POSITION.get(method.name)
    return least is not None and (arguments.vararg is not None or len(by_position) >= least)


def _override_fix(
    script: Script, definition: ast.ClassDef, method: ast.FunctionDef, parameter: str, library: str
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
