"""Options that are assigned after the configuration was made, when they have been read."""

import ast
from collections.abc import Iterator

from memlint.rule import Call, Config, Finding, How, Script, Setting, edits, fix

# What ``__post_init__`` reads: assigning it later changes nothing.
_READ_ONCE = frozenset(
    {
        *("gradient_checkpointing", "gradient_checkpointing_kwargs", "activation_checkpointing"),
        *("activation_checkpointing_kwargs", "tf32", "fp16", "bf16"),
    }
)
# Those that change what is computed, in configurations of every class.
_PRECISIONS = frozenset({"tf32", "fp16", "bf16"})


def read_once(call: Call) -> Iterator[Setting]:
    """The settings of options that are read when the configuration is made."""
    return (call.setting(name) for name in call.keywords if name in _READ_ONCE)


def too_late(script: Script, call: Call, setting: Setting) -> Iterator[Finding]:
    """``args.gradient_checkpointing = True`` after ``args`` was made."""
    if not isinstance(call, Config) or setting.how is not How.ATTRIBUTE or call.is_remade:
        return
    if not isinstance(setting.owner, ast.Assign) or not _is_lost(script, call, setting):
        return
    kind = call.kind.rpartition(".")[2]
    yield Finding(
        script.span(setting.owner.targets[0]),
        f"`{setting.name}` is assigned when it is too late: it was read when the configuration was "
        "made",
        fix(
            f"Give `{setting.name}` to `{kind}`",
            _moved(script, call, setting, setting.owner),
            unsafe=setting.name in _PRECISIONS,
        ),
    )


def _is_lost(script: Script, config: Config, setting: Setting) -> bool:
    """True if the assignment changes nothing that it should change."""
    if setting.name not in _READ_ONCE or not script.api.accepts(config.kind, setting.name):
        return False
    if setting.name in _PRECISIONS:
        # It may be so already.
        return config.settled(setting.name).value is not setting.value
    # Before the option had two names it was read when training began.
    has_both = script.api.accepts(config.kind, "activation_checkpointing")
    return config.kind.startswith("transformers.") and has_both is True


def _moved(
    script: Script, config: Config, setting: Setting, assignment: ast.Assign
) -> tuple[edits.Edit, ...] | None:
    """The option given where the configuration is made, in the place of the assignment."""
    constant = isinstance(setting.value, bool | int | str) or setting.value is None
    if config.first(setting.name).given is not False or config.from_command_line or not constant:
        return None
    if len(assignment.targets) != 1:
        return None
    given = edits.add_option(config, setting.name, repr(setting.value))
    return edits.together(given, (edits.RemoveStatement(script.span(assignment)),))
