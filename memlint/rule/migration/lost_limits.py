"""A limit that TRL's trainers no longer set, read by a trainer made after one of them.

``self.max_prompt_length`` was set by GRPOTrainer and its like from their configuration. Whoever
still wants it sets it on the arguments, where it can be asked for.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from memlint.rule import Finding, Fix, ReplaceExpression, Runtime, Script
from memlint.script.version_guards import is_guarded


def lost_limits(script: Script) -> Iterator[Finding]:
    """``self.max_prompt_length`` in a trainer made after TRL's, which set it until its end."""
    for definition in script.classes:
        for base in definition.bases:
            trainer = script.name(base)
            config = script.api.config_of(trainer) if trainer is not None else None
            if trainer is not None and config is not None and config.startswith("trl."):
                yield from _lost(script, definition, trainer, config)


def _lost(script: Script, definition: ast.ClassDef, trainer: str, config: str) -> Iterator[Finding]:
    inside = list(ast.walk(definition))
    own = _own_names(definition, inside)
    package = trainer.partition(".")[0]
    for node in inside:
        match node:
            case ast.Attribute(value=ast.Name(id="self"), attr=attr, ctx=ast.Load()):
                pass
            case _:
                continue
        if attr in own or not _was_set(script, trainer, config, attr) or is_guarded(script, node):
            continue
        source = f'getattr(self.args, "{attr}", None)'
        yield Finding(
            script.span(node),
            f"`{trainer.rpartition('.')[2]}` of {package} "
            f"{script.api.target.version(package).version} does not set `{attr}` any more",
            Fix(f"Ask `self.args` for `{attr}`", (ReplaceExpression(script.span(node), source),)),
        )


def _own_names(definition: ast.ClassDef, inside: list[ast.AST]) -> set[str]:
    """The attributes and methods that a class gives itself; ``inside`` are all of its nodes."""
    own = {node.attr for node in inside if isinstance(node, ast.Attribute) and _is_bound(node)}
    own |= {node.name for node in inside if isinstance(node, ast.FunctionDef)}
    return own | {name.id for statement in definition.body for name in _bound_names(statement)}


def _was_set(script: Script, trainer: str, config: str, attribute: str) -> bool:
    """True if TRL's trainer set a limit of its configuration that is the runtime's now."""
    return (
        isinstance(script.api.successor(config, attribute), Runtime)
        and script.api.accepts(config, attribute) is False
        and attribute not in (script.api.attributes(trainer) or (attribute,))
    )


def _is_bound(node: ast.Attribute) -> bool:
    return (
        isinstance(node.value, ast.Name)
        and node.value.id == "self"
        and not isinstance(node.ctx, ast.Load)
    )


def _bound_names(statement: ast.stmt) -> Iterator[ast.Name]:
    """The names that a statement of a class's body binds."""
    targets = statement.targets if isinstance(statement, ast.Assign) else ()
    if isinstance(statement, ast.AnnAssign):
        targets = [statement.target]
    yield from (target for target in targets if isinstance(target, ast.Name))
