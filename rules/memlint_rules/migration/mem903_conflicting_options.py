"""Combinations of options that the library refuses at run time."""

from collections.abc import Iterator

from memlint.rule import (
    CHECKPOINTING_OPTIONS,
    Call,
    Config,
    Finding,
    Fix,
    Level,
    Refusal,
    Rule,
    Script,
    advise,
    edits,
    facts,
    fix,
)
from memlint_rules.migration.checkpoint_schedules import refused_schedules
from memlint_rules.migration.option_places import renamed_options
from memlint_rules.migration.recipe_keys import conflicting_switches
from memlint_rules.migration.refused_trainers import refused_trainers


def check(script: Script) -> Iterator[Finding]:
    for config in script.configs:
        trainers = script.trainers_with(config)
        if any(map(_is_provoked, (config, *trainers))):
            continue
        if not trainers and facts.is_probe(script, config.node):
            continue  # made to see what this version takes
        renamed = renamed_options(script, config)
        for refusal in script.api.refusals(config.kind):
            if _holds(config, refusal, renamed):
                yield _finding(script, config, refusal)
        if script.training_with(config):
            yield from _checkpointed_twice(script, config)
        yield from refused_schedules(script, config, renamed)
    for trainer in script.trainers:
        if not _is_provoked(trainer):
            yield from refused_trainers(script, trainer)


def _is_provoked(call: Call) -> bool:
    """True if a test wants the refusal: ``with pytest.raises(ValueError):``."""
    return any(
        name.rpartition(".")[2] in ("raises", "assertRaises", "assertRaisesRegex")
        for name in call.contexts
    )


def _holds(config: Config, refusal: Refusal, renamed: frozenset[str]) -> bool:
    """True if all of it is certain, and at least one of it was written.

    renamed: options that are given by an old name; another rule speaks of those.
    """
    written = False
    for name, condition in refusal.options:
        if name in renamed:
            return False
        setting = config.when_made(name)
        if not config.has_option(name) or not setting.known or setting.given is None:
            return False
        if not condition.holds(setting.value):
            return False
        written |= bool(setting.given)
    return written


def _finding(script: Script, config: Config, refusal: Refusal) -> Finding:
    given = [config.setting(name) for name, _ in refusal.options]
    node = next((one.node for one in reversed(given) if one.given and one.node is not None), None)
    return Finding(
        script.span(node if node is not None else config.node.func),
        f"`{config.kind.rpartition('.')[2]}` refuses this at run time: {refusal.message}",
        _fix(script, config, refusal),
    )


def _fix(script: Script, config: Config, refusal: Refusal) -> Fix | None:
    if refusal.drop:
        drop = config.setting(refusal.drop)
        if drop.given and config.keyword_node(drop.name) is not None:
            edit = edits.RemoveKeyword(config.span, drop.name)
            return fix(f"Remove `{drop.name}`", (edit,), unsafe=not refusal.safe)
        return advise(f"Do without `{drop.name}`")
    name, source = refusal.change
    if name:
        changes = edits.set_option(script, config, name, source, despite_comments=True)
        return fix(f"Set `{name}={source}`", changes, unsafe=not refusal.safe)
    return advise(refusal.advice) if refusal.advice else None


def _checkpointed_twice(script: Script, config: Config) -> Iterator[Finding]:
    """A trainer that checkpoints layers which FSDP checkpoints too (trainer.py, __init__)."""
    by_launcher = script.launcher.checkpoints
    if not (by_launcher or config.checkpointed_by_fsdp) or config.checkpointing is not True:
        return
    where = "the launcher's configuration" if by_launcher else "`fsdp_config`"
    names = [name for name in CHECKPOINTING_OPTIONS if config.has_option(name)]
    settings = [config.setting(name) for name in names]
    setting = next((one for one in settings if one.value is True), settings[0])
    changes = edits.set_option(script, config, setting.name, "False")
    node = setting.node if setting.given else None
    yield Finding(
        script.span(node if node is not None else config.node.func),
        f"the trainer refuses `{setting.name}=True` at run time: {where} has FSDP checkpoint the "
        "same layers",
        fix(f"Set `{setting.name}=False`: FSDP goes on checkpointing", changes),
    )


RULE = Rule(
    level=Level.ERROR,
    summary="a combination of options that the library refuses",
    check=check,
    of_recipe=conflicting_switches,
)
