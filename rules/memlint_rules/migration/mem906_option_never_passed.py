"""A memory option that is assigned to a variable which nothing reads."""

import ast
from collections.abc import Iterator

from memlint.rule import Config, Finding, Rule, Script, advise, successors

# Options that save memory, under the names that notebooks give their variables.
_OPTIONS = (
    *("packing", "padding_free", "gradient_checkpointing", "activation_checkpointing"),
    *("activation_offloading", "use_liger_kernel", "bf16", "max_length", "max_seq_length"),
    *("group_by_length", "use_4bit", "gradient_accumulation_steps"),
)


def check(script: Script) -> Iterator[Finding]:
    if not script.configs or any(config.has_unknown_keywords for config in script.configs):
        return
    if script.method_calls("globals", "locals", "vars"):
        return
    for target, value in script.unread_constants:
        name = target.id
        if name.lower() not in _OPTIONS or value in (None, False):
            continue
        takers = [
            (config, option)
            for config in script.configs
            for option in (_option_of(script, config, name.lower()),)
            if option is not None
        ]
        if all(
            config.setting(option).given is False and not config.from_command_line
            for config, option in takers
        ):
            yield _finding(script, target, name, takers)


def _finding(
    script: Script, target: ast.Name, name: str, takers: list[tuple[Config, str]]
) -> Finding:
    message = f"`{name}` is assigned and never read"
    advice = "Remove the variable, or give it to what takes it"
    if takers:
        config, option = takers[0]
        owner = config.kind.rpartition(".")[2]
        message += f": `{owner}` does not get it"
        advice = f"Pass `{option}={name}` to `{owner}`, or remove the variable"
    return Finding(script.span(target), message, advise(advice))


def _option_of(script: Script, config: Config, name: str) -> str | None:
    """What the target's class of a configuration calls the option; None where it has none."""
    if config.has_option(name) and not script.api.warns(config.kind, name):
        return name
    replacement = script.api.successor(config.kind, name)
    if isinstance(replacement, successors.Rename) and config.has_option(replacement.parameter):
        return replacement.parameter
    return name if config.has_option(name) else None


RULE = Rule(
    summary="a memory option assigned to a variable that never reaches the configuration",
    check=check,
)
