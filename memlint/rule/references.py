"""How a script can speak of a library name: through what it imports already, or a new import."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING

from memlint.api.stand_ins import stands_in
from memlint.rule.edits import AddImport, Edit
from memlint.source.record import Plain

if TYPE_CHECKING:
    from memlint.script.model import Script

ImportEntry = tuple[ast.Import | ast.ImportFrom, ast.alias, str]


class Reference(Plain):
    """Source text that stands for a qualified name, and the edits that make it valid."""

    text: str
    edits: tuple[Edit, ...] = ()


def _reference(
    qualname: str,
    imports: list[ImportEntry],
    *,
    usable: Callable[[ast.AST], bool],
    canonical: Callable[[str], str],
    taken: Callable[[str], bool],
) -> Reference | None:
    """The shortest honest way to name ``qualname``; None where its name is taken by another thing.

    usable: whether an import statement is in force where the name will be used.
    taken: whether the script binds a plain name itself.
    """
    wanted = canonical(qualname)
    module, _, name = qualname.rpartition(".")
    through_module: str | None = None
    bound_elsewhere = False
    for node, alias, full in imports:
        if alias.name == "*":
            continue
        if not usable(node):
            bound_elsewhere |= (alias.asname or alias.name) == name
            continue
        if isinstance(node, ast.ImportFrom):
            # A stand-in of the runtime is its original as well, and not the other way round.
            if canonical(full) == wanted and (stands_in(full) or not stands_in(qualname)):
                return Reference(alias.asname or alias.name)
            prefix, bound = full, alias.asname or alias.name
        elif alias.asname:
            prefix, bound = full, alias.asname
        else:
            prefix = bound = alias.name.split(".")[0]
        if through_module is None and qualname.startswith(f"{prefix}."):
            through_module = bound + qualname[len(prefix) :]
    if through_module is not None:
        return Reference(through_module)
    if module in ("torch", "torch.nn") or not module:
        # ``import torch`` reads better than ``from torch import bfloat16``.
        top = qualname.split(".")[0]
        return None if taken(top) else Reference(qualname, (AddImport(top),))
    if taken(name) and not bound_elsewhere:
        return None
    return Reference(name, (AddImport(module, name),))


def reference_to(script: Script, qualname: str, at: ast.AST) -> Reference | None:
    """How a script can name ``qualname`` at a place; None where its name is taken."""
    function = script.function(at)
    around = set(script.ancestors(at))

    def usable(statement: ast.AST) -> bool:
        parent = script.parent(statement)
        if isinstance(parent, ast.Module):
            return function is not None or script.span(statement).end <= script.span(at).start
        before = script.span(statement).end <= script.span(at).start
        return parent in around and before

    bound_by_import = {alias.asname or alias.name for _, alias, _ in script.imports}
    return _reference(
        qualname,
        script.imports,
        usable=usable,
        canonical=script.api.canonical,
        taken=lambda name: script.binds(name) or name in bound_by_import,
    )
