"""A ``formatting_func`` that makes texts of many rows, for an SFTTrainer that asks for one of each.

Until 0.20 TRL gave the function a batch of rows and took a list of texts; since 0.21 it gives one
row and wants its text. A function written for batches gets a batch of one row.
"""

import ast
from collections.abc import Iterator

from memlint.rule import Finding, Fix, Script, advise, edits, facts, fix

_OPTION = "formatting_func"


def batched_formatting(script: Script) -> Iterator[Finding]:
    if script.uses_unsloth or script.api.behaviour("sft-formatting") != "row":
        return
    for trainer in script.trainers:
        given = trainer.keyword_node(_OPTION)
        if trainer.kind != "trl.SFTTrainer" or trainer.subclass is not None or given is None:
            continue
        functions = facts.row_functions(script, given.value)
        if not functions or not all(function.returns_list for function in functions):
            continue
        yield Finding(
            script.span(given.value),
            f"`{_OPTION}` returns a list, `SFTTrainer` of {script.api.at_target(trainer.kind)} "
            f"wants the text of one row (since trl 0.21)",
            _fix(script, given.value, functions),
        )


def _fix(script: Script, value: ast.expr, functions: list[facts.RowFunction]) -> Fix:
    text = script.text(value)
    if not isinstance(value, ast.Name | ast.Attribute) or text == "row":
        return advise("Return the text of one row")
    batch = "{name: [value] for name, value in row.items()}"
    by_row = all(function.goes_through_rows for function in functions)
    indexed = all(function.takes_first_row for function in functions)
    given = batch if by_row or indexed else "row"
    edit = edits.ReplaceExpression(script.span(value), f"lambda row: {text}({given})[0]")
    if by_row:
        return fix(f"Give `{text}` a batch of one row", (edit,))
    return fix(
        f"Take the one text of `{text}` for each row: it made one of a whole batch",
        (edit,),
        unsafe=True,
    )
