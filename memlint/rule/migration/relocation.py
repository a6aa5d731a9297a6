"""A trainer's keyword becomes an option of its configuration, wherever that is made."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from memlint.rule import (
    UNSURE,
    Call,
    Config,
    Edit,
    How,
    InsertStatement,
    Move,
    RemoveKeyword,
    Script,
    SetKeyword,
    Setting,
    Trainer,
)
from memlint.rule.changes import set_option
from memlint.rule.migration.option_places import (
    Edits,
    assigned,
    successor_of,
    value_node,
    without_option,
    written,
)
from memlint.rule.references import reference_to


def moved_to_config(
    script: Script, call: Call, setting: Setting, new: str, source: str
) -> Edits | None:
    """A trainer's keyword becomes an option of its configuration."""
    if not isinstance(call, Trainer):
        return None
    value = value_node(script, call, setting)
    gone = without_option(script, call, setting)
    if value is None or gone is None or setting.how is not How.KEYWORD:
        return None
    kind = script.api.config_of(call.kind)
    if call.args.given is False and kind is not None and not call.open_ended:
        if setting.value is None:
            return gone if not setting.by_default else None
        reference = reference_to(script, kind, call.node)
        if reference is None:
            return None
        text = source.format(value=script.text(value))
        made = SetKeyword(call.span, "args", f"{reference.text}({new}={text})")
        return (*gone, made, *reference.edits)
    config = call.config
    if config is None:
        return _extended(script, call, kind) if kind is not None else None
    if config.fed_by_parser and kind is not None:
        if not script.api.is_a(config.kind, kind):
            return _converted(script, call, config, kind)
        if setting.value is None:
            return gone if not setting.by_default else None
        # What the trainer was told counted for more than the command line.
        later = _assigned(script, call, config, new, source.format(value=script.text(value)))
        return (*gone, *later) if later is not None else None
    if needs_own_arguments(script, config):
        return _extended(script, call, kind) if kind is not None else None
    if config.fed_by_parser or not config.has_option(new):
        return None
    present = config.setting(new)
    if present.given is not False:
        # Both say it: where they agree, or the trainer's says nothing, the configuration stays.
        same = present.value is not UNSURE and present.value == setting.value
        unsaid = setting.value is None and not setting.by_default
        return gone if present.given and (same or unsaid) else None
    if setting.value is None:
        # On a trainer None meant that nothing was said; a flag may say something.
        return gone if not setting.by_default else None
    readable = _readable_at(script, value, config)
    if readable is None:
        given = call.keyword_node("args")
        if given is not None and kind is not None and script.takes_parameter(given.value):
            # Another caller may give arguments of another class, which cannot hold it.
            return _extended(script, call, kind)
        later = _assigned(script, call, config, new, source.format(value=script.text(value)))
        return (*gone, *later) if later is not None else None
    edits = set_option(script, config, new, source.format(value=readable))
    return (*gone, *edits) if edits is not None else None


def needs_own_arguments(script: Script, config: Config) -> bool:
    """Whether trainers that share their arguments were told different things beside them."""
    told = [
        {one.name: _told(one.value) for one in _moved(script, trainer)}
        for trainer in script.trainers_with(config)
    ]
    return any(one != told[0] for one in told)


def _told(value: object) -> object:
    """A value for comparison: what is not known differs from everything."""
    return object() if value is UNSURE else value


def _assigned(
    script: Script, trainer: Trainer, config: Config, option: str, source: str
) -> Edits | None:
    """``args.max_length = ...`` before the trainer, where the configuration is made too early.

    What moves from a trainer is read by the trainer, so that it is not too late there.
    """
    made = trainer.keyword_node("args")
    statement = script.statement(trainer.node)
    if made is None or not isinstance(made.value, ast.Name):
        return None
    if not isinstance(statement, ast.Assign | ast.AnnAssign | ast.Expr | ast.Return):
        return None
    if len(script.trainers_with(config)) != 1 or trainer.in_loop:
        return None
    line = f"{made.value.id}.{option} = {assigned(source)}"
    return (InsertStatement(script.span(statement), line),)


def _converted(script: Script, trainer: Trainer, config: Config, kind: str) -> Edits | None:
    """Plain arguments from a command line become the trainer's own, all its keywords with them.

    The conversion is the one that TRL's trainers make of plain arguments themselves.
    """
    plain = "transformers.TrainingArguments"
    made = trainer.keyword_node("args")
    reference = reference_to(script, kind, trainer.node)
    if config.kind != plain or made is None or reference is None:
        return None
    if not isinstance(made.value, ast.Name | ast.Attribute) or trainer.open_ended:
        return None
    if script.api.accepts(plain, "push_to_hub_token") is not False:
        # The dictionary of older versions holds a name that their configurations refuse.
        return None
    moving = _moving(script, trainer)
    if moving is None or any(script.api.accepts(plain, one) is not False for one in moving[1]):
        return None
    edits, options = moving
    if any(one.value is None and one.by_default for one in _moved(script, trainer)):
        # A flag that says nothing by its default.
        return _extended(script, trainer, kind)
    name = script.text(made.value)
    given = ", ".join(f"{option}={source}" for option, source in options.items())
    unpacked = f'**{{**{name}.to_dict(), "hub_token": {name}.hub_token}}'
    source = f"{reference.text}({unpacked}, {given})" if given else f"{reference.text}({unpacked})"
    return (*edits, SetKeyword(trainer.span, "args", source), *reference.edits)


def _extended(script: Script, trainer: Trainer, kind: str) -> Edits | None:
    """Arguments made out of sight get the options when the script runs, whatever they are then."""
    made = trainer.keyword_node("args")
    if made is None or trainer.open_ended or trainer.subclass is not None:
        return None
    if not kind.startswith("trl.") or trainer.args.value is None:
        return None
    moving = _moving(script, trainer)
    extend = reference_to(script, "memlint_runtime.extend_arguments", trainer.node)
    reference = reference_to(script, kind, trainer.node)
    if moving is None or extend is None or reference is None:
        return None
    edits, options = moving
    if not options or any(script.api.accepts(kind, one) is not True for one in options):
        return edits if not options else None
    given = ", ".join(f"{option}={source}" for option, source in options.items())
    source = f"{extend.text}({script.text(made.value)}, {reference.text}, {given})"
    made_so = SetKeyword(trainer.span, "args", source)
    return (*edits, made_so, *extend.edits, *reference.edits)


def _moved(script: Script, trainer: Trainer) -> Iterator[Setting]:
    """The keywords of a trainer that are its configuration's now."""
    for found in trainer.settings():
        setting = written(trainer, found)
        if script.api.accepts(trainer.kind, setting.name) is False and isinstance(
            successor_of(script, trainer, setting), Move
        ):
            yield setting


def _moving(script: Script, trainer: Trainer) -> tuple[Edits, dict[str, str]] | None:
    """What takes those keywords away, and the options that they become, as source.

    One fix is made of them, which every one of them gets.
    """
    options: dict[str, str] = {}
    edits: list[Edit] = []
    for setting in _moved(script, trainer):
        way = successor_of(script, trainer, setting)
        value = value_node(script, trainer, setting)
        if value is None or setting.how is not How.KEYWORD or setting.owner is not trainer.node:
            return None
        edits.append(RemoveKeyword(trainer.span, setting.name))
        if isinstance(way, Move) and (setting.value is not None or setting.by_default):
            options[way.parameter] = way.source.format(value=script.text(value))
    return tuple(edits), options


def _readable_at(script: Script, value: ast.expr, config: Config) -> str | None:
    """The source of ``value`` where the configuration is made; None where its names are not bound
    there yet (then a known constant stands for it)."""
    if script.is_bound_before(value, config.node):
        return script.text(value)
    if script.takes_parameter(value):
        return None
    known = script.python(value)
    if known is None or isinstance(known, bool | int | float | str):
        return repr(known)
    return None
