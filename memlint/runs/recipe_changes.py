"""Edits of a recipe's settings, made where their keys stand."""

from __future__ import annotations

from memlint.recipes.recipe import Recipe
from memlint.source.edits import Edit, RemoveItem, RenameItem, SetItem


def set_key(recipe: Recipe, path: str, source: str) -> tuple[Edit, ...] | None:
    """Edits that give the setting at ``path`` a value, a Python literal.

    None where its mapping is missing or shared, or its value is unknown.
    """
    holder = recipe.holder(path)
    return None if holder is None else (SetItem(holder, path.rpartition(".")[2], source),)


def remove_key(recipe: Recipe, path: str) -> tuple[Edit, ...] | None:
    """Edits that take the setting at ``path`` out; none where it is not written."""
    if not recipe.is_written(path):
        return ()
    holder = recipe.holder(path)
    return None if holder is None else (RemoveItem(holder, path.rpartition(".")[2]),)


def rename_key(recipe: Recipe, path: str, new: str) -> tuple[Edit, ...] | None:
    """Edits that call the last key of ``path`` ``new``; None where it is not written here."""
    holder = recipe.holder(path)
    if holder is None or not recipe.is_written(path):
        return None
    return (RenameItem(holder, path.rpartition(".")[2], new),)
