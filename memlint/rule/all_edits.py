"""Edits that fixes are made of, and the functions that make them where a value lives."""

from memlint.recipes.recipe import rename_key, set_key
from memlint.runs.changes import add_option, configure, set_item, set_option, together
from memlint.runs.loop_losses import deferred_logits, fused_loss
from memlint.runs.own_layers import recomputed_layers
from memlint.runs.padding_cuts import cut_padding
from memlint.runs.references import Reference, method_of, reference_to, without_import
from memlint.runs.runtime_calls import call_beside
from memlint.source.edits import (
    AddDecorator,
    AddParameter,
    Edit,
    InsertStatement,
    RemoveImport,
    RemoveKeyword,
    RemoveStatement,
    RenameAttribute,
    RenameImport,
    RenameKeyword,
    ReplaceCallee,
    ReplaceExpression,
    SetItem,
    SetKeyword,
    WrapStatements,
)
