"""Classes and functions that the target no longer has, imported or read from their module."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import islice

from memlint.rule import (
    COMPARED,
    Advice,
    Applicability,
    Call,
    Edit,
    Finding,
    Fix,
    Inline,
    Remove,
    RemoveImport,
    RemoveKeyword,
    RemoveStatement,
    RenameImport,
    RenameKeyword,
    Replace,
    ReplaceExpression,
    Script,
    SetKeyword,
    Symbol,
)
from memlint.rule.migration.removal import fitness, other_releases, since, without
from memlint.runs.references import reference_to
from memlint.script.version_guards import is_guarded

# Names of a script that no release may have: each is looked for in the tables of all.
MOST_UNKNOWN = 1_000


def removed_imports(script: Script) -> Iterator[Finding]:
    for statement, alias, qualname in islice(_gone(script), MOST_UNKNOWN):
        package = qualname.partition(".")[0]
        if is_guarded(script, statement):
            continue
        replacement = script.api.successor(qualname)
        if replacement is None and script.api.history(qualname) is None:
            yield from _never_there(script, alias, alias.name, qualname)
            continue
        version = script.api.target.version(package).version
        yield Finding(
            script.span(alias),
            f"{package} {version} has no `{qualname}`{since(script, script.api.history(qualname))}",
            _unused(script, statement, alias, qualname)
            or _import_fix(script, statement, alias, qualname, replacement)
            or _of_pytorch(script, qualname)
            or without(script, f"`{alias.name}`", script.api.history(qualname)),
        )


def _gone(script: Script) -> Iterator[tuple[ast.Import | ast.ImportFrom, ast.alias, str]]:
    """The imports of names that the target does not have."""
    for statement, alias, qualname in script.imports:
        package = qualname.partition(".")[0]
        if package not in (*COMPARED, "torch") or alias.name == "*":
            continue
        if script.api.exists(qualname) is False:
            yield statement, alias, qualname


def _never_there(
    script: Script, node: ast.alias | ast.Attribute, name: str, qualname: str
) -> Iterator[Finding]:
    """A name that no release known ever offered: a misspelling, by what it is like, or one of
    older releases, by the names that transformers has at its top. The others have forks."""
    package, _, rest = qualname.partition(".")
    if package == "torch" or not rest or script.api.is_beyond_tables(package):
        return
    import difflib

    offered = script.api.offered(qualname.rpartition(".")[0])
    near = difflib.get_close_matches(name, offered, n=1, cutoff=_ALIKE)
    if not near and (qualname != f"transformers.{name}" or _is_minded(script, name)):
        return
    version, first = script.api.target.version(package).version, script.api.first_release(package)
    advice = f"Leave `{name}` out: {package} before {first}, or a fork of it, may have it"
    if near:
        verb = "Import" if isinstance(node, ast.alias) else "Use"
        advice = f"{verb} `{near[0]}`, if that was meant"
    yield Finding(
        script.span(node),
        f"{package} {version} has no `{qualname}`, nor had any release since {first}",
        Fix(advice, (), Applicability.DISPLAY),
    )


def _is_minded(script: Script, name: str) -> bool:
    """True if the script puts the name there itself, or asks for it: ``hasattr(module, "name")``;
    or it is none that a package offers."""
    return (
        name.startswith("_")
        or any(node.value == name for node in script.nodes(ast.Constant))
        or any(
            node.attr == name and isinstance(node.ctx, ast.Store)
            for node in script.nodes(ast.Attribute)
        )
    )


# As alike as a name and its misspelling are.
_ALIKE = 0.85


def _of_pytorch(script: Script, qualname: str) -> Fix | None:
    """Advice for a class of TensorFlow or Flax whose like for PyTorch is there."""
    module, _, name = qualname.rpartition(".")
    for prefix in ("TF", "Flax"):
        like = name.removeprefix(prefix)
        if like != name and script.api.exists(f"{module}.{like}"):
            framework = "TensorFlow" if prefix == "TF" else prefix
            stay = other_releases(script, script.api.history(qualname))
            return Fix(
                f"Train with PyTorch, `{like}`: transformers has no models of {framework} any "
                f"more{stay}",
                (),
                Applicability.DISPLAY,
            )
    return None


def _unused(
    script: Script, statement: ast.Import | ast.ImportFrom, alias: ast.alias, qualname: str
) -> Fix | None:
    """What is imported and never used can go: the import fails, and nothing needs it."""
    if not isinstance(statement, ast.ImportFrom) or statement.module is None:
        return None
    if script.source.path.endswith("__init__.py") or _uses(script, alias, qualname) != []:
        return None
    bound = alias.asname or alias.name
    if any(node.value == bound for node in script.nodes(ast.Constant)):
        # An annotation in quotes, or a lookup by name.
        return None
    edit = RemoveImport(statement.module, alias.name)
    return Fix(f"Remove the import of `{alias.name}`: nothing uses it", (edit,))


def _import_fix(
    script: Script,
    statement: ast.Import | ast.ImportFrom,
    alias: ast.alias,
    qualname: str,
    replacement: object,
) -> Fix | None:
    match replacement:
        case Replace(qualname=new, arguments=(), written=()) if isinstance(
            statement, ast.ImportFrom
        ):
            module, _, name = new.rpartition(".")
            edit = RenameImport(
                script.span(statement), statement.module or "", alias.name, module, name
            )
            return Fix(f"Import `{name}` from `{module}`", (edit,), fitness(replacement.safe))
        case Replace(qualname=new) if isinstance(statement, ast.ImportFrom):
            edits = _replaced_calls(script, statement, alias, qualname, replacement)
            how = fitness(replacement.safe) if edits else Applicability.DISPLAY
            return Fix(f"Use `{new}`", edits or (), how)
        case Replace(qualname=new):
            return Fix(f"Use `{new}`", (), Applicability.DISPLAY)
        case Remove(note=note):
            edits = _removed_calls(script, statement, alias, qualname)
            how = fitness(replacement.safe) if edits else Applicability.DISPLAY
            return Fix(f"Remove `{alias.name}`: {note}", edits or (), how)
        case Inline(source=source):
            return _inline(script, alias, qualname, source, replacement.imports, replacement.safe)
        case Advice(note=note):
            return Fix(note[:1].upper() + note[1:], (), Applicability.DISPLAY)
    return None


def _uses(script: Script, alias: ast.alias, qualname: str) -> list[Call] | None:
    """The calls of what ``alias`` binds, None where it is used otherwise than by being called."""
    bound = alias.asname or alias.name
    if any(isinstance(node, ast.Constant) and node.value == bound for node in _exported(script)):
        return None
    name = script.api.canonical(qualname)
    calls = {call.node.func: call for call in script.calls_to(name)}
    found = []
    for node in script.nodes(ast.Name):
        if node.id == bound:
            if node not in calls:
                return None
            found.append(calls[node])
    return found


def _exported(script: Script) -> Iterator[ast.expr]:
    for statement in script.nodes(ast.Assign):
        match statement:
            case ast.Assign(targets=[ast.Name(id="__all__")], value=ast.List() | ast.Tuple()):
                yield from statement.value.elts  # type: ignore[attr-defined]


def _replaced_calls(
    script: Script, statement: ast.ImportFrom, alias: ast.alias, qualname: str, replacement: Replace
) -> tuple[Edit, ...] | None:
    """Every call of a function or class becomes one of what took its place, as it worked before."""
    calls = _uses(script, alias, qualname)
    if calls is None or statement.module is None:
        return None
    module, _, name = replacement.qualname.rpartition(".")
    edits: list[Edit] = [
        RenameImport(script.span(statement), statement.module, alias.name, module, name)
    ]
    for call in calls:
        if call.has_unknown_keywords or call.subclass is not None:
            return None
        for old, new in replacement.arguments:
            if call.keyword_node(old) is not None:
                edits.append(
                    RemoveKeyword(call.span, old)
                    if new is None
                    else RenameKeyword(call.span, old, new)
                )
        positions = script.api.signature(replacement.qualname)
        given = positions.positional[: len(call.node.args)] if positions is not None else ()
        if any(isinstance(one, ast.Starred) for one in call.node.args):
            return None
        for name, source in replacement.written:
            if call.keyword_node(name) is None and name not in given:
                edits.append(SetKeyword(call.span, name, source))
    return tuple(edits)


def _removed_calls(
    script: Script, statement: ast.Import | ast.ImportFrom, alias: ast.alias, qualname: str
) -> tuple[Edit, ...] | None:
    """Every statement that is nothing but a call of the function goes, and its import."""
    calls = _uses(script, alias, qualname)
    if calls is None or not isinstance(statement, ast.ImportFrom) or statement.module is None:
        return None
    holders = [script.parent(call.node) for call in calls]
    if not all(isinstance(holder, ast.Expr) for holder in holders):
        return None
    gone = (RemoveStatement(script.span(holder)) for holder in holders if holder is not None)
    return (*gone, RemoveImport(statement.module, alias.name, unless_used=bool(calls)))


def _inline(
    script: Script,
    alias: ast.alias,
    qualname: str,
    source: str,
    imports: tuple[str, ...],
    safe: bool,
) -> Fix | None:
    """Every call of the function becomes the expression that it was."""
    calls = list(script.calls_to(script.api.canonical(qualname)))
    edits: list[Edit] = []
    for call in calls:
        text = source
        for name in imports:
            reference = reference_to(script, name, call.node)
            if reference is None:
                return None
            text = text.replace(name.rpartition(".")[2], reference.text)
            edits += reference.edits
        edits.append(ReplaceExpression(call.span, text))
    if not calls:
        return None
    module = qualname.rpartition(".")[0]
    edits.append(RemoveImport(module, alias.name))
    return Fix(f"Write `{source}` instead", tuple(dict.fromkeys(edits)), fitness(safe))


def removed_member(script: Script, node: ast.Attribute, value: Symbol) -> Iterator[Finding]:
    """``trl.PPOTrainer`` by its module."""
    qualname = f"{value.name}.{node.attr}"
    if is_guarded(script, node):
        return
    if script.api.exists(value.name) is False:
        return
    replacement = script.api.successor(qualname)
    history = script.api.history(qualname)
    if replacement is None and history is None:
        yield from _never_there(script, node, node.attr, qualname)
        return
    package = qualname.partition(".")[0]
    fix = None
    match replacement:
        case Replace(qualname=new, arguments=(), written=()):
            reference = reference_to(script, new, node)
            if reference is not None:
                edits = (ReplaceExpression(script.span(node), reference.text), *reference.edits)
                fix = Fix(f"Use `{new}`", edits, fitness(replacement.safe))
        case Advice(note=note):
            fix = Fix(note[:1].upper() + note[1:], (), Applicability.DISPLAY)
        case _:
            fix = without(script, f"`{node.attr}`", history)
    yield Finding(
        script.span(node),
        f"{package} {script.api.target.version(package).version} has no `{qualname}`"
        f"{since(script, history)}",
        fix,
    )
