"""How a script can speak of a library name: through what it imports already, or a new import."""

import ast
from collections.abc import Callable

from memlint.api.drop_ins import stands_in
from memlint.script.called import Call
from memlint.script.model import Script
from memlint.source.edits import AddImport, Edit, RemoveImport, ReplaceCallee
from memlint.source.record import Record

ImportEntry = tuple[ast.Import | ast.ImportFrom, ast.alias, str]


class Reference(Record):
    """Source text that stands for a qualified name, and the edits that make it valid."""

    text: str
    edits: tuple[Edit, ...] = ()


class _Binding(Record):
    """What an import in force binds: ``bound`` stands for the qualified name ``full``."""

    bound: str
    full: str
    is_from: bool


def _binding(statement: ast.Import | ast.ImportFrom, alias: ast.alias, full: str) -> _Binding:
    if isinstance(statement, ast.ImportFrom):
        return _Binding(alias.asname or alias.name, full, True)
    if alias.asname:
        return _Binding(alias.asname, full, False)
    top = alias.name.split(".")[0]
    return _Binding(top, top, False)


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
    named = [entry for entry in imports if entry[1].name != "*"]
    in_force = [_binding(*entry) for entry in named if usable(entry[0])]
    bound = _bound_already(qualname, in_force, canonical)
    if bound is not None:
        return Reference(bound)
    module, _, name = qualname.rpartition(".")
    if module in ("torch", "torch.nn") or not module:
        # ``import torch`` reads better than ``from torch import bfloat16``.
        top = qualname.split(".")[0]
        return None if taken(top) else Reference(qualname, (AddImport(top),))
    elsewhere = {alias.asname or alias.name for node, alias, _ in named if not usable(node)}
    if taken(name) and name not in elsewhere:
        return None
    return Reference(name, (AddImport(module, name),))


def _bound_already(
    qualname: str, in_force: list[_Binding], canonical: Callable[[str], str]
) -> str | None:
    """What stands for ``qualname`` by the imports in force: its own name before its module's."""
    wanted = canonical(qualname)
    for one in in_force:
        # A stand-in of the runtime is its original as well, and not the other way round.
        same = one.is_from and canonical(one.full) == wanted
        if same and (stands_in(one.full) or not stands_in(qualname)):
            return one.bound
    for one in in_force:
        if qualname.startswith(f"{one.full}."):
            return one.bound + qualname[len(one.full) :]
    return None


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


def without_import(script: Script, qualname: str) -> tuple[RemoveImport, ...]:
    """Edits that take a name out of the imports that bring it, unless it is used elsewhere."""
    wanted = script.api.canonical(qualname)
    return tuple(
        RemoveImport(node.module, alias.name)
        for node, alias, full in script.imports
        if isinstance(node, ast.ImportFrom) and node.module
        if script.api.canonical(full) == wanted
    )


def replace_callee(script: Script, call: Call, qualname: str) -> tuple[Edit, ...] | None:
    """Edits by which a call is one of ``qualname``; None where its name is taken. What imported
    the old callee goes, where nothing else needs it."""
    named = reference_to(script, qualname, call.node)
    if named is None:
        return None
    gone = without_import(script, call.name)
    return (ReplaceCallee(call.span, named.text), *named.edits, *gone)


def method_of(script: Script, node: ast.expr, method: str) -> str:
    """``expression.method()``, in parentheses where it must be."""
    text = script.text(node)
    closed = isinstance(node, ast.Name | ast.Attribute | ast.Call | ast.Subscript)
    return f"{text}.{method}()" if closed else f"({text}).{method}()"
