"""Arguments that a trainer refuses together, by the tables of refusals."""

import ast
from collections.abc import Iterator

from memlint.rule import UNSURE, Finding, Fix, Refusal, Script, Trainer, advise, edits, fix
from memlint_rules.migration.refused_data import asked, refused_data
from memlint_rules.migration.refused_models import refused_models


def refused_trainers(script: Script, trainer: Trainer) -> Iterator[Finding]:
    """Yield what the trainer's constructor, or its first step, raises an error for."""
    if trainer.subclass is not None or script.uses_unsloth:
        # Its own constructor may see to it.
        return
    of_tables = (
        (_place(trainer, refusal), refusal.message, _answer(trainer, refusal))
        for refusal in script.api.refusals(trainer.kind)
        if _holds(trainer, refusal)
    )
    for node, reason, answer in (
        *of_tables,
        *refused_models(script, trainer),
        *refused_data(script, trainer),
    ):
        yield Finding(
            script.span(node if node is not None else trainer.node.func),
            f"`{trainer.kind.rpartition('.')[2]}` refuses this at run time: {reason}",
            answer,
        )


def _holds(trainer: Trainer, refusal: Refusal) -> bool:
    values = ((asked(trainer, name), condition) for name, condition in refusal.options)
    return all(value is not UNSURE and condition.holds(value) for value, condition in values)


def _place(trainer: Trainer, refusal: Refusal) -> ast.AST | None:
    name = refusal.options[0][0]
    if name.startswith("args.") and trainer.config is not None:
        return trainer.config.setting(name.removeprefix("args.")).node
    return trainer.keyword_node(name)


def _answer(trainer: Trainer, refusal: Refusal) -> Fix:
    if not refusal.drop or trainer.keyword_node(refusal.drop) is None:
        return advise(refusal.advice)
    edit = edits.RemoveKeyword(trainer.span, refusal.drop)
    return fix(refusal.advice, (edit,), unsafe=not refusal.safe)
