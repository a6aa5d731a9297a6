"""Changes that call the runtime on a trainer, or on its model."""

import ast
from typing import Literal

from memlint.engine.nodes import targets_of
from memlint.runs.changes import together
from memlint.runs.model_names import namings_when_complete
from memlint.runs.references import reference_to
from memlint.runs.run import Change
from memlint.script.calls import Trainer
from memlint.script.loaded_models import ModelFacts
from memlint.script.model import Script
from memlint.source.edits import Edit, InsertStatement

IF_TAKEN = "if the runtime takes the model: its code may not be transformers' own"


def call_beside(
    script: Script,
    function: str,
    arguments: str,
    statement: ast.stmt,
    where: Literal["before", "after"] = "before",
) -> tuple[Edit, ...] | None:
    """Edits that call ``function``, by its qualified name, before or after a statement.

    None where its name is taken there.
    """
    reference = reference_to(script, function, statement)
    if reference is None:
        return None
    call = f"{reference.text}({arguments})"
    return (InsertStatement(script.span(statement), call, where), *reference.edits)


def call_on_model(
    script: Script, function: str, facts: ModelFacts, arguments: str = "{}"
) -> tuple[Edit, ...] | None:
    """Edits that call ``function(model)`` where the model is complete; None where that is not
    known, or it has no name there.

    arguments: how the model's name becomes the arguments, as ``{}, fuse_evaluation=True``.
    """
    parts = [
        call_beside(script, function, arguments.format(one.name), one.statement, "after")
        for one in namings_when_complete(script, facts) or ()
    ]
    return together(*parts) if parts else None


def call_after_trainer(script: Script, trainer: Trainer, qualname: str, argument: str) -> Change:
    """``qualname(argument)`` as a statement after the one that makes ``trainer``.

    argument: how the trainer's name becomes the argument, as ``{}.model``. Advice where the
    trainer has no name, or the runtime is not tested with the target.
    """
    statement = script.statement(trainer.node)
    is_named = getattr(statement, "value", None) is trainer.node
    name = " ".join(map(script.text, targets_of(statement))) if is_named else ""
    given = argument.format(name)
    is_named = name.removeprefix("self.").isidentifier()
    edits = call_beside(script, qualname, given, statement, "after") if is_named else None
    if edits is None or script.api.behaviour("runtime") != "tested":
        return Change({}, f"Call `{qualname}({argument.format('trainer')})` before training")
    short = qualname.rpartition(".")[2]
    made = change_of_model(trainer, f"Call `{short}({given})` after the trainer is made", edits)
    return made._replace(unsafe=made.unsafe or "." in name)  # methods out of sight may use it, too


def change_of_model(trainer: Trainer, message: str, edits: tuple[Edit, ...] | None) -> Change:
    """A change that calls the runtime on a trainer's model: safe for transformers' own classes."""
    doubted = trainer.trains_own_code
    return Change({}, f"{message}, {IF_TAKEN}" if doubted else message, edits, doubted)
