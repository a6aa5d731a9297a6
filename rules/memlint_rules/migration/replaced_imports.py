"""What takes the place of an imported name that is gone, in the import and in every call."""

import ast

from memlint.rule import Call, Fix, Script, advise, edits, facts, fix, successors
from memlint_rules.migration.removal import told

_Import = ast.Import | ast.ImportFrom


def unused(script: Script, statement: _Import, alias: ast.alias, qualname: str) -> Fix | None:
    """Return the fix of an import that nothing uses: it fails, and can go."""
    if not isinstance(statement, ast.ImportFrom) or statement.module is None:
        return None
    if script.source.path.endswith("__init__.py") or _uses(script, alias, qualname) != []:
        return None
    if script.places_of_string(alias.asname or alias.name):
        # An annotation in quotes, or a lookup by name.
        return None
    edit = edits.RemoveImport(statement.module, alias.name)
    return fix(f"Remove the import of `{alias.name}`: nothing uses it", (edit,))


def import_fix(
    script: Script,
    statement: _Import,
    alias: ast.alias,
    qualname: str,
    replacement: successors.Successor | None,
) -> Fix | None:
    """Return what the tables say of an import, as edits where they are certain."""
    match replacement:
        case successors.Replace(qualname=new, safe=safe):
            if not isinstance(statement, ast.ImportFrom):
                return advise(f"Use `{new}`")
            module, _, name = new.rpartition(".")
            calls_of_old = script.calls_to(script.api.canonical(qualname))
            given = [one for call in calls_of_old for one in call.keywords]
            refused = [one for one in given if script.api.accepts(new, one) is False]
            if refused and name.islower() and not replacement.arguments:
                # A function's keywords are looked at nowhere else.
                return advise(f"Import `{name}` from `{module}`; it does not take `{refused[0]}`")
            if not replacement.arguments and not replacement.written:
                edit = _renamed(script, statement, alias, new)
                return fix(f"Import `{name}` from `{module}`", (edit,), unsafe=not safe)
            calls = _replaced_calls(script, statement, alias, qualname, replacement)
            return fix(f"Use `{new}`", calls, unsafe=not safe)
        case successors.Remove(note=note, safe=safe):
            calls = _removed_calls(script, statement, alias, qualname)
            return fix(f"Remove `{alias.name}`: {note}", calls, unsafe=not safe)
        case successors.Inline():
            return _inline(script, alias, qualname, replacement)
        case successors.Advice(note=note):
            return told(note)
    return None


def _renamed(
    script: Script, statement: ast.ImportFrom, alias: ast.alias, new: str
) -> edits.RenameImport:
    module, _, name = new.rpartition(".")
    span = script.span(statement)
    return edits.RenameImport(span, statement.module or "", alias.name, module, name)


def _uses(script: Script, alias: ast.alias, qualname: str) -> list[Call] | None:
    """The calls of what ``alias`` binds, None where it is used otherwise than by being called."""
    bound = alias.asname or alias.name
    calls = {call.node.func: call for call in script.calls_to(script.api.canonical(qualname))}
    uses = [one for one in script.mentions(bound) if isinstance(one, ast.Name)]
    if facts.exports(script, bound) or not all(node in calls for node in uses):
        return None
    return [calls[node] for node in uses]


def _replaced_calls(
    script: Script,
    statement: ast.ImportFrom,
    alias: ast.alias,
    qualname: str,
    replacement: successors.Replace,
) -> tuple[edits.Edit, ...] | None:
    """Every call of a function or class becomes one of what took its place, as it worked before."""
    calls = _uses(script, alias, qualname)
    if calls is None or statement.module is None:
        return None
    changes: list[edits.Edit] = [_renamed(script, statement, alias, replacement.qualname)]
    for call in calls:
        starred = any(isinstance(argument, ast.Starred) for argument in call.node.args)
        if call.has_unknown_keywords or call.subclass is not None or starred:
            return None
        for old, new in replacement.arguments:
            if call.keyword_node(old) is not None:
                changes.append(
                    edits.RemoveKeyword(call.span, old)
                    if new is None
                    else edits.RenameKeyword(call.span, old, new)
                )
        positions = script.api.signature(replacement.qualname)
        given = positions.positional[: len(call.node.args)] if positions is not None else ()
        changes += [
            edits.SetKeyword(call.span, name, source)
            for name, source in replacement.written
            if call.keyword_node(name) is None and name not in given
        ]
    return tuple(changes)


def _removed_calls(
    script: Script, statement: _Import, alias: ast.alias, qualname: str
) -> tuple[edits.Edit, ...] | None:
    """Every statement that is nothing but a call of the function goes, and its import."""
    calls = _uses(script, alias, qualname)
    if calls is None or not isinstance(statement, ast.ImportFrom) or statement.module is None:
        return None
    holders = [script.statement(call.node) for call in calls]
    if not all(script.is_statement(call.node) for call in calls):
        return None
    gone = (edits.RemoveStatement(script.span(holder)) for holder in holders)
    return (*gone, edits.RemoveImport(statement.module, alias.name, unless_used=bool(calls)))


def _inline(
    script: Script, alias: ast.alias, qualname: str, replacement: successors.Inline
) -> Fix | None:
    """Every call of the function becomes the expression that it was."""
    changes: list[edits.Edit] = []
    for call in script.calls_to(script.api.canonical(qualname)):
        text = replacement.source
        for name in replacement.imports:
            reference = edits.reference_to(script, name, call.node)
            if reference is None:
                return None
            text = text.replace(name.rpartition(".")[2], reference.text)
            changes += reference.edits
        changes.append(edits.ReplaceExpression(call.span, text))
    if not changes:
        return None
    changes.append(edits.RemoveImport(qualname.rpartition(".")[0], alias.name))
    message = f"Write `{replacement.source}` instead"
    return fix(message, tuple(dict.fromkeys(changes)), unsafe=not replacement.safe)
