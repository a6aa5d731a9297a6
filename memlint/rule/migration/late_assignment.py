"""Options that are assigned after the configuration was made, when they have been read."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from memlint.rule import (
    Call,
    Config,
    Edit,
    Finding,
    How,
    RemoveStatement,
    Script,
    Setting,
    fix,
    together,
)
from memlint.rule.changes import add_option

# What ``__post_init__`` reads: assigning it later changes nothing.
_READ_ONCE = frozenset(
    {
        "gradient_checkpointing",
        "gradient_checkpointing_kwargs",
        "activation_checkpointing",
        "activation_checkpointing_kwargs",
        "tf32",
    }
)


def read_once(call: Call) -> Iterator[Setting]:
    """The settings of options that are read when the configuration is made."""
    return (call.setting(name) for name in call.keywords if name in _READ_ONCE)


def too_late(script: Script, call: Call, setting: Setting) -> Iterator[Finding]:
    """``args.gradient_checkpointing = True`` after ``args`` was made."""
    if not isinstance(call, Config) or setting.how is not How.ATTRIBUTE:
        return
    if setting.name not in _READ_ONCE or not isinstance(setting.owner, ast.Assign):
        return
    if not call.kind.startswith("transformers.") or not script.api.accepts(call.kind, setting.name):
        return
    if setting.name != "tf32" and not script.api.accepts(call.kind, "activation_checkpointing"):
        # Before the option had two names it was read when training began.
        return
    at_birth = call.given_at_birth(setting.name)
    constant = isinstance(setting.value, bool | int | str) or setting.value is None
    edits: tuple[Edit, ...] | None = None
    if at_birth is False and constant and len(setting.owner.targets) == 1:
        given = add_option(call, setting.name, repr(setting.value))
        edits = together(given, (RemoveStatement(script.span(setting.owner)),))
    yield Finding(
        script.span(setting.owner.targets[0]),
        f"`{setting.name}` is assigned when it is too late: it was read when the configuration was "
        "made",
        fix(f"Give `{setting.name}` to `{call.kind.rpartition('.')[2]}`", edits),
    )
