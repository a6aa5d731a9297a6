"""Classes and functions that the target no longer has, imported or read from their module."""

import ast
from collections.abc import Iterator
from itertools import islice

from memlint.rule import (
    Finding,
    Fix,
    Script,
    Symbol,
    advise,
    edits,
    fix,
    is_guarded,
    successors,
    triggers,
)
from memlint_rules.migration.removal import nearest, other_releases, since, told, without
from memlint_rules.migration.replaced_imports import import_fix, unused

# Names of a script that no release may have: each is looked for in the tables of all.
MOST_UNKNOWN = 1_000


def removed_imports(script: Script) -> Iterator[Finding]:
    for statement, alias, qualname in islice(_gone(script), MOST_UNKNOWN):
        if is_guarded(script, statement):
            continue
        replacement, history = script.api.successor(qualname), script.api.history(qualname)
        if replacement is None and history is None:
            yield from _never_there(script, alias, alias.name, qualname)
            continue
        yield _finding(
            script,
            alias,
            qualname,
            unused(script, statement, alias, qualname)
            or import_fix(script, statement, alias, qualname, replacement)
            or _of_pytorch(script, qualname)
            or without(script, f"`{alias.name}`", history),
        )


def removed_member(script: Script, node: ast.Attribute, value: Symbol) -> Iterator[Finding]:
    """``trl.PPOTrainer`` by its module."""
    qualname = f"{value.name}.{node.attr}"
    if is_guarded(script, node) or script.api.exists(value.name) is False:
        return
    replacement, history = script.api.successor(qualname), script.api.history(qualname)
    if replacement is None and history is None:
        yield from _never_there(script, node, node.attr, qualname)
        return
    answer: Fix | None = None
    match replacement:
        case successors.Replace(qualname=new, arguments=(), written=(), safe=safe):
            reference = edits.reference_to(script, new, node)
            if reference is not None:
                edit = edits.ReplaceExpression(script.span(node), reference.text)
                answer = fix(f"Use `{new}`", (edit, *reference.edits), unsafe=not safe)
        case successors.Advice(note=note):
            answer = told(note)
        case _:
            answer = without(script, f"`{node.attr}`", history)
    yield _finding(script, node, qualname, answer)


def _finding(script: Script, node: ast.AST, qualname: str, answer: Fix | None) -> Finding:
    gone = since(script, script.api.history(qualname))
    message = f"{script.api.at_target(qualname)} has no `{qualname}`{gone}"
    return Finding(script.span(node), message, answer)


def _gone(script: Script) -> Iterator[tuple[ast.Import | ast.ImportFrom, ast.alias, str]]:
    for statement, alias, qualname in script.imports:
        compared = qualname.partition(".")[0] in (*triggers.COMPARED, "torch") and alias.name != "*"
        if compared and script.api.exists(qualname) is False:
            yield statement, alias, qualname


def _never_there(
    script: Script, node: ast.alias | ast.Attribute, name: str, qualname: str
) -> Iterator[Finding]:
    """A name that no release known ever offered: a misspelling, by what it is like, or one of
    older releases, by the names that transformers has at its top. The others have forks."""
    package, _, rest = qualname.partition(".")
    if package == "torch" or not rest or script.api.is_beyond_tables(package):
        return
    near = nearest(name, script.api.offered(qualname.rpartition(".")[0]))
    if not near and (qualname != f"transformers.{name}" or _is_minded(script, name)):
        return
    first = script.api.first_release(package)
    advice = f"Leave `{name}` out: {package} before {first}, or a fork of it, may have it"
    if near:
        verb = "Import" if isinstance(node, ast.alias) else "Use"
        advice = f"{verb} `{near}`, if that was meant"
    yield Finding(
        script.span(node),
        f"{script.api.at_target(package)} has no `{qualname}`, nor had any release since {first}",
        advise(advice),
    )


def _is_minded(script: Script, name: str) -> bool:
    """True if the script puts the name there itself, or asks for it: ``hasattr(module, "name")``;
    or it is none that a package offers."""
    asked = script.places_of_string(name) or any(map(script.is_target, script.attributes(name)))
    return name.startswith("_") or bool(asked)


def _of_pytorch(script: Script, qualname: str) -> Fix | None:
    """Advice for a class of TensorFlow or Flax whose like for PyTorch is there."""
    module, _, name = qualname.rpartition(".")
    for prefix, framework in (("TF", "TensorFlow"), ("Flax", "Flax")):
        like = name.removeprefix(prefix)
        if like != name and script.api.exists(f"{module}.{like}"):
            stay = other_releases(script, script.api.history(qualname))
            more = f"transformers has no models of {framework} any more{stay}"
            return advise(f"Train with PyTorch, `{like}`: {more}")
    return None
