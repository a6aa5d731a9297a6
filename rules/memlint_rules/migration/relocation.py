"""A trainer's keyword becomes an option of its configuration, wherever that is made."""

import ast
from collections.abc import Iterator

from memlint.rule import UNSURE, Config, How, Script, Setting, Trainer, edits, successors
from memlint_rules.migration.option_places import (
    Edits,
    Option,
    assigned,
    option_of,
    successor_of,
    written,
)


def moved_to_config(option: Option, replacement: successors.Move) -> Edits | None:
    """A trainer's keyword becomes an option of its configuration."""
    script, trainer, gone = option.script, option.call, option.place.removed()
    if not isinstance(trainer, Trainer) or gone is None or option.setting.how is not How.KEYWORD:
        return None
    kind, config = script.api.config_of(trainer.kind), trainer.config
    if config is None:
        if kind is not None and trainer.args.given is False and not trainer.has_unknown_keywords:
            return _with_configuration(option, replacement, kind)
        return _extended(script, trainer, kind)
    if config.from_command_line:
        if kind is None:
            return None
        return _over_command_line(option, replacement, trainer, config, kind)
    if needs_own_arguments(script, config):
        return _extended(script, trainer, kind)
    if not config.has_option(replacement.parameter):
        return None
    # What stands in an extension of the configuration stands nowhere else.
    extended = _extended(script, trainer, kind) if _is_cut_off(script, trainer, config) else None
    return extended or _in_configuration(option, replacement, trainer, config)


def _is_cut_off(script: Script, trainer: Trainer, config: Config) -> bool:
    """True if an option that moves can be written nowhere from the configuration to the trainer."""
    for setting in _moved(script, trainer):
        replacement = successor_of(script, trainer, setting)
        option = option_of(script, trainer, setting)
        if option is None or not isinstance(replacement, successors.Move):
            continue
        if _readable_at(script, option.value, config) is None and (
            _is_shared(script, trainer) or _assigned(option, replacement, trainer, config) is None
        ):
            return True
    return False


def _is_shared(script: Script, trainer: Trainer) -> bool:
    """True if another caller may give arguments of another class, which cannot hold an option."""
    given = trainer.keyword_node("args")
    return given is not None and script.takes_parameter(given.value)


def _in_configuration(
    option: Option, replacement: successors.Move, trainer: Trainer, config: Config
) -> Edits | None:
    """The option in the call that makes the configuration, or in an assignment after it."""
    script, gone = option.script, option.place.removed()
    present = config.setting(replacement.parameter)
    if present.given is not False:
        return gone if present.given and _adds_nothing(option, present) else None
    if option.says_nothing is not False:
        return option.where_unsaid()
    readable = _readable_at(script, option.value, config)
    if readable not in (None, option.text) and not _is_shared(script, trainer):
        # A name that is bound later stays in use.
        later = _both(gone, _assigned(option, replacement, trainer, config))
        if later is not None:
            return later
    if readable is not None:
        source = replacement.source.format(value=readable)
        return _both(
            gone,
            edits.set_option(script, config, replacement.parameter, source, despite_comments=True),
        )
    return _both(gone, _assigned(option, replacement, trainer, config))


def _both(gone: Edits | None, more: Edits | None) -> Edits | None:
    """All the edits, or none."""
    return (*gone, *more) if gone is not None and more is not None else None


def _adds_nothing(option: Option, present: Setting) -> bool:
    """True if the configuration stays as it is: both say the same, or it alone says anything."""
    same = present.value is not UNSURE and present.value == option.setting.value
    return same or option.says_nothing is True


def _with_configuration(option: Option, replacement: successors.Move, kind: str) -> Edits | None:
    if option.says_nothing is not False:
        return option.where_unsaid()
    reference = edits.reference_to(option.script, kind, option.call.node)
    gone = option.place.removed()
    if reference is None or gone is None:
        return None
    source = (
        f"{reference.text}({replacement.parameter}={replacement.source.format(value=option.text)})"
    )
    return (*gone, edits.SetKeyword(option.call.span, "args", source), *reference.edits)


def _over_command_line(
    option: Option, replacement: successors.Move, trainer: Trainer, config: Config, kind: str
) -> Edits | None:
    """What the trainer was told counted for more than the command line."""
    if not option.script.api.is_a(config.kind, kind):
        return _converted(option.script, trainer, config, kind)
    if option.says_nothing is not False:
        return option.where_unsaid()
    return _both(option.place.removed(), _assigned(option, replacement, trainer, config))


def needs_own_arguments(script: Script, config: Config) -> bool:
    """True if trainers that share their arguments were told different things beside them."""
    given = [
        # What is not known differs from everything.
        {m.name: object() if m.value is UNSURE else m.value for m in _moved(script, trainer)}
        for trainer in script.trainers_with(config)
    ]
    return any(one != given[0] for one in given)


def _assigned(
    option: Option, replacement: successors.Move, trainer: Trainer, config: Config
) -> Edits | None:
    """``args.max_length = ...`` before the trainer, where the configuration is made too early.

    What moves from a trainer is read by the trainer, so that it is not too late there.
    """
    script, made = option.script, trainer.keyword_node("args")
    statement = script.statement(trainer.node)
    if made is None or not isinstance(made.value, ast.Name):
        return None
    if not isinstance(statement, ast.Assign | ast.AnnAssign | ast.Expr | ast.Return):
        return None
    if len(script.trainers_with(config)) != 1 or trainer.in_loop:
        return None
    source = replacement.source.format(value=option.text)
    line = f"{made.value.id}.{replacement.parameter} = {assigned(source)}"
    return (edits.InsertStatement(script.span(statement), line),)


def _converted(script: Script, trainer: Trainer, config: Config, kind: str) -> Edits | None:
    """Plain arguments from a command line become the trainer's own, all its keywords with them.

    The conversion is the one that TRL's trainers make of plain arguments themselves.
    """
    plain = "transformers.TrainingArguments"
    made = trainer.keyword_node("args")
    reference = edits.reference_to(script, kind, trainer.node)
    if config.kind != plain or made is None or reference is None:
        return None
    if not isinstance(made.value, ast.Name | ast.Attribute) or trainer.has_unknown_keywords:
        return None
    if script.api.accepts(plain, "push_to_hub_token") is not False:
        # The dictionary of older versions holds a name that their configurations refuse.
        return None
    moving = _moving(script, trainer)
    if moving is None or any(script.api.accepts(plain, one) is not False for one in moving[1]):
        return None
    changes, options = moving
    if any(one.value is None and one.is_overridable_default for one in _moved(script, trainer)):
        # A flag that says nothing by its default.
        return _extended(script, trainer, kind)
    name = script.text(made.value)
    given = ", ".join(f"{option}={source}" for option, source in options.items())
    unpacked = f'**{{**{name}.to_dict(), "hub_token": {name}.hub_token}}'
    source = f"{reference.text}({unpacked}, {given})" if given else f"{reference.text}({unpacked})"
    return (*changes, edits.SetKeyword(trainer.span, "args", source), *reference.edits)


def _extended(script: Script, trainer: Trainer, kind: str | None) -> Edits | None:
    """Arguments made out of sight get the options when the script runs, whatever they are then."""
    made = trainer.keyword_node("args")
    if made is None or trainer.has_unknown_keywords or trainer.subclass is not None:
        return None
    if kind is None or not kind.startswith("trl.") or trainer.args.value is None:
        return None
    moving = _moving(script, trainer)
    extend = edits.reference_to(script, "memlint_runtime.extend_arguments", trainer.node)
    reference = edits.reference_to(script, kind, trainer.node)
    if moving is None or extend is None or reference is None:
        return None
    changes, options = moving
    if not options or any(script.api.accepts(kind, one) is not True for one in options):
        return changes if not options else None
    given = ", ".join(f"{option}={source}" for option, source in options.items())
    source = f"{extend.text}({script.text(made.value)}, {reference.text}, {given})"
    made_so = edits.SetKeyword(trainer.span, "args", source)
    return (*changes, made_so, *extend.edits, *reference.edits)


def _moved(script: Script, trainer: Trainer) -> Iterator[Setting]:
    """The keywords of a trainer that are its configuration's now."""
    for found in trainer.settings():
        setting = written(trainer, found)
        if script.api.accepts(trainer.kind, setting.name) is False and isinstance(
            successor_of(script, trainer, setting), successors.Move
        ):
            yield setting


def _moving(script: Script, trainer: Trainer) -> tuple[Edits, dict[str, str]] | None:
    """What takes those keywords away, and the options that they become, as source.

    One fix is made of them, which every one of them gets.
    """
    options: dict[str, str] = {}
    changes: list[edits.Edit] = []
    for setting in _moved(script, trainer):
        replacement = successor_of(script, trainer, setting)
        option = option_of(script, trainer, setting)
        if option is None or setting.how is not How.KEYWORD or setting.owner is not trainer.node:
            return None
        changes += option.place.removed() or ()
        if isinstance(replacement, successors.Move) and not option.says_nothing:
            options[replacement.parameter] = replacement.source.format(value=option.text)
    return tuple(changes), options


def _readable_at(script: Script, value: ast.expr, config: Config) -> str | None:
    """The source of ``value`` where the configuration is made; None where its names are not bound
    there yet (then a known constant stands for it)."""
    if script.is_bound_before(value, config.node):
        return script.text(value)
    if script.takes_parameter(value):
        return None
    known = script.python(value)
    is_plain = known is None or isinstance(known, bool | int | float | str)
    return repr(known) if is_plain else None
