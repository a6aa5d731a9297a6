"""Turning what the tables say of a successor into edits.

What was called, moved, merged or dropped is knowledge of ``memlint.api``; here it meets one call of
one script: where the option stands (keyword, dict item, subscript, attribute), whether its value
can be read where it has to go, and what else the call already says. Where an edit would be a guess
there is advice instead.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from memlint.rule import (
    UNSURE,
    Applicability,
    Build,
    Call,
    Config,
    Edit,
    Environment,
    Fix,
    How,
    InsertStatement,
    Move,
    Object,
    Remove,
    RemoveItem,
    RemoveKeyword,
    RemoveStatement,
    Rename,
    RenameAttribute,
    RenameItem,
    RenameKeyword,
    ReplaceExpression,
    Runtime,
    Script,
    SetItem,
    SetKeyword,
    Setting,
    Span,
    Successor,
    Symbol,
    Trainer,
)

Edits = tuple[Edit, ...]


def option_fix(script: Script, call: Call, setting: Setting, way: Successor | None) -> Fix | None:
    """What to do about an option of a call, as edits where they are certain, else as advice."""
    if way is None:
        return None
    message = _message(setting.name, way)
    edits = _option_edits(script, call, setting, way)
    if edits is None:
        return Fix(message, (), Applicability.DISPLAY)
    return Fix(message, edits, Applicability.SAFE if way.safe else Applicability.UNSAFE)


def _message(name: str, way: Successor) -> str:
    match way:
        case Rename(parameter=new):
            text = f"Write `{new}` instead of `{name}`"
        case Move(parameter=new):
            text = f"Set `{new}` in the trainer's configuration"
        case Build(parameter=new, source=source):
            shown = source.replace("{{", "{").replace("}}", "}").replace("{value}", "...")
            text = f"Write `{new}={shown}`"
        case Environment(variable=variable):
            text = f"Set `{variable}` in the environment"
        case Runtime(function=function):
            text = f"Let `{function}` do it"
        case Remove():
            text = f"Remove `{name}`"
        case _:
            return way.note[:1].upper() + way.note[1:]
    return f"{text}: {way.note}" if way.note else text


def _is_read_back(script: Script, call: Call, setting: Setting) -> bool:
    """Whether the option stands in a dictionary from which the script reads it by its old name.

    What is read while the dictionary is made (``{"packing": recipe["packing"]}``) is another's.
    """
    owner = setting.owner
    if setting.how is How.ATTRIBUTE or owner is call.node or owner is None:
        return False
    made = script.span(owner)
    for node in script.nodes(ast.Subscript):
        key = node.slice
        reads = isinstance(node.ctx, ast.Load) and isinstance(key, ast.Constant)
        named = reads and getattr(key, "value", None) == setting.name
        if named and not made.contains(script.span(node)):
            return True
    return any(
        isinstance(one.node.args[0], ast.Constant)
        and one.node.args[0].value == setting.name
        and not made.contains(one.span)
        for one in script.method_calls("get", "pop", "setdefault")
        if one.node.args
    )


def _option_edits(script: Script, call: Call, setting: Setting, way: Successor) -> Edits | None:
    if _is_read_back(script, call, setting):
        return None
    match way:
        case Rename(parameter=new, source=source):
            return _rename(script, call, setting, new, source)
        case Remove():
            return _remove(script, call, setting)
        case Build():
            return _build(script, call, setting, way)
        case Move(parameter=new, source=source):
            return _move(script, call, setting, new, source)
        case Environment(variable=variable):
            return _environment(script, call, setting, variable)
        case Runtime():
            return _runtime(script, call, setting, way)
        case _:
            return None


# -- where the option stands -----------------------------------------------------------------------


def value_node(script: Script, call: Call, setting: Setting) -> ast.expr | None:
    """The expression written for the option, in whatever form it stands."""
    owner = setting.owner
    match setting.how:
        case How.KEYWORD if isinstance(owner, ast.Call):
            return next((one.value for one in owner.keywords if one.arg == setting.name), None)
        case How.ITEM if isinstance(owner, ast.Dict):
            for key, value in zip(owner.keys, owner.values, strict=True):
                if isinstance(key, ast.Constant) and key.value == setting.name:
                    return value
        case How.SUBSCRIPT | How.ATTRIBUTE if isinstance(owner, ast.Assign):
            return owner.value
    return None


def _remove(script: Script, call: Call, setting: Setting) -> Edits | None:
    owner = setting.owner
    if owner is None:
        return None
    match setting.how:
        case How.KEYWORD if isinstance(owner, ast.Call):
            return (RemoveKeyword(script.span(owner), setting.name),)
        case How.ITEM if isinstance(owner, ast.Dict):
            return (RemoveItem(script.span(owner), setting.name),)
        case How.SUBSCRIPT | How.ATTRIBUTE if isinstance(owner, ast.Assign):
            return (RemoveStatement(script.span(owner)),) if len(owner.targets) == 1 else None
    return None


def _rename(script: Script, call: Call, setting: Setting, new: str, source: str) -> Edits | None:
    owner = setting.owner
    if owner is None:
        return None
    value = value_node(script, call, setting)
    if value is None:
        return None
    present = call.setting(new)
    unseen = call.open_ended and new not in call.keywords
    if present.given is not False and not (unseen and setting.how in (How.KEYWORD, How.ATTRIBUTE)):
        # (What ``**`` or a command line may bring in beside the old name is no new name of the
        # same thing; what is assigned after it counts.)
        gone = _remove(script, call, setting)
        if gone is None or not present.given:
            return None
        if present.by_default and (present.is_none or present.is_value(0)):
            # A flag may make it count.
            return None
        if present.is_none or present.is_value(0):
            # ``warmup_steps=0, warmup_ratio=0.1``: the one that says something counts.
            moved = script.set_option(call, new, source.format(value=script.text(value)))
            return (*gone, *moved) if moved is not None else None
        return gone if present.known else None
    change: Edits = ()
    if source != "{value}":
        filled = source.format(value=script.text(value))
        change = (ReplaceExpression(script.span(value), filled),)
    match setting.how:
        case How.KEYWORD if isinstance(owner, ast.Call):
            return (RenameKeyword(script.span(owner), setting.name, new), *change)
        case How.ITEM if isinstance(owner, ast.Dict):
            return (RenameItem(script.span(owner), setting.name, new), *change)
        case How.SUBSCRIPT if isinstance(owner, ast.Assign):
            target = owner.targets[0]
            if isinstance(target, ast.Subscript):
                key = script.text(target.slice)
                return (
                    ReplaceExpression(script.span(target.slice), key.replace(setting.name, new)),
                    *change,
                )
        case How.ATTRIBUTE if isinstance(owner, ast.Assign):
            target = owner.targets[0]
            if isinstance(target, ast.Attribute):
                return (RenameAttribute(script.span(target), new), *change)
    return None


def option_span(script: Script, call: Call, setting: Setting) -> Span:
    """Where the option is named, for the eye."""
    keyword = next(
        (one for one in getattr(setting.owner, "keywords", ()) if one.arg == setting.name), None
    )
    if keyword is not None:
        start = script.span(keyword)
        return Span(start.start, start.start + len(setting.name.encode()))
    if isinstance(setting.owner, ast.Dict):
        for key in setting.owner.keys:
            if isinstance(key, ast.Constant) and key.value == setting.name:
                return script.span(key)
    value = value_node(script, call, setting)
    return script.span(value if value is not None else call.node.func)


def successor_of(script: Script, call: Call, setting: Setting) -> Successor | None:
    """What takes the option's place at the target, its value considered where it is known.

    The default of a command line or of a parameter is not: whoever runs it may say otherwise.
    """
    certain = setting.known and not setting.by_default
    if certain and not isinstance(setting.value, Object | Symbol):
        return script.api.successor(call.name, setting.name, setting.value)
    return script.api.successor(call.name, setting.name)


# -- other shapes ----------------------------------------------------------------------------------


def _build(script: Script, call: Call, setting: Setting, way: Build) -> Edits | None:
    """``load_in_4bit=True, ...`` becomes ``quantization_config=BitsAndBytesConfig(...)``."""
    owner = setting.owner
    value = value_node(script, call, setting)
    if owner is None or value is None:
        return None
    present = call.setting(way.parameter)
    before = ""
    if way.parameter != setting.name and present.given is not False:
        # What it would build is there already: the old option has nothing left to say.
        if present.given and present.known and present.value is not None:
            return _remove(script, call, setting)
        there = value_node(script, call, present) if present.owner is owner else None
        if (
            not isinstance(there, ast.Name | ast.Attribute)
            or way.parameter != "quantization_config"
        ):
            return None
        before = f"{script.text(there)} or "
    merged = [
        one
        for one in map(call.setting, way.merge)
        if one.name != setting.name and one.given is not False
    ]
    if any(one.owner is not owner for one in merged):
        return None
    first = next((name for name in way.merge if name in (setting.name, *_names(merged))), None)
    if first is not None and first != setting.name and way.merge:
        # One of them speaks for all, so that they are merged once.
        return None
    source = way.source.format(value=script.text(value))
    sure = setting.value is True and not setting.by_default
    flags = {} if sure else {setting.name: script.text(value)}
    for one in merged:
        node = value_node(script, call, one)
        if node is None:
            return None
        if (one.value is False or one.value is None) and not one.by_default:
            continue
        source = f"{source[:-1]}, {one.name}={script.text(node)})"
        if one.name in _QUANTIZE:
            sure |= one.value is True and not one.by_default
            flags[one.name] = script.text(node)
    if setting.name in _QUANTIZE and not sure:
        # A configuration that asks for neither would quantize all the same.
        asked = [one if one.isidentifier() else _grouped(one) for one in flags.values()]
        source = f"{source} if {' or '.join(asked)} else None"
        source = f"({source})" if before else source
    source = before + source
    edits: list[Edit] = []
    for qualname in way.imports:
        reference = script.reference(qualname, owner)
        if reference is None:
            return None
        source = source.replace(qualname.rpartition(".")[2], reference.text)
        edits += reference.edits
    span = script.span(owner)
    names = [setting.name, *_names(merged)]
    if setting.how is How.KEYWORD and isinstance(owner, ast.Call):
        gone = [RemoveKeyword(span, name) for name in names if name != way.parameter]
        return (*gone, SetKeyword(span, way.parameter, source), *edits)
    if setting.how is How.ITEM and isinstance(owner, ast.Dict):
        left_out = [RemoveItem(span, name) for name in names if name != way.parameter]
        return (*left_out, SetItem(span, way.parameter, source), *edits)
    return None


_QUANTIZE = ("load_in_4bit", "load_in_8bit")


def _grouped(source: str) -> str:
    """An expression as an operand of ``or``."""
    plain = isinstance(
        ast.parse(source, mode="eval").body, ast.Name | ast.Attribute | ast.Call | ast.Compare
    )
    return source if plain else f"({source})"


def _names(settings: Iterable[Setting]) -> list[str]:
    return [one.name for one in settings]


def _move(script: Script, call: Call, setting: Setting, new: str, source: str) -> Edits | None:
    """A trainer's keyword becomes an option of its configuration."""
    if not isinstance(call, Trainer):
        return None
    value = value_node(script, call, setting)
    gone = _remove(script, call, setting)
    if value is None or gone is None or setting.how is not How.KEYWORD:
        return None
    kind = script.api.config_of(call.kind)
    if call.args.given is False and kind is not None and not call.open_ended:
        if setting.value is None:
            return gone if not setting.by_default else None
        reference = script.reference(kind, call.node)
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
        assigned = _assigned(script, call, config, new, source.format(value=script.text(value)))
        return (*gone, *assigned) if assigned is not None else None
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
        assigned = _assigned(script, call, config, new, source.format(value=script.text(value)))
        return (*gone, *assigned) if assigned is not None else None
    edits = script.set_option(config, new, source.format(value=readable))
    return (*gone, *edits) if edits is not None else None


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
    line = f"{made.value.id}.{option} = {source}"
    return (InsertStatement(script.span(statement), line),)


def _converted(script: Script, trainer: Trainer, config: Config, kind: str) -> Edits | None:
    """Plain arguments from a command line become the trainer's own, all its keywords with them.

    The conversion is the one that TRL's trainers make of plain arguments themselves.
    """
    plain = "transformers.TrainingArguments"
    made = trainer.keyword_node("args")
    reference = script.reference(kind, trainer.node)
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
    extend = script.reference("memlint_runtime.extend_arguments", trainer.node)
    reference = script.reference(kind, trainer.node)
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
    known = script.python(value)
    if known is None or isinstance(known, bool | int | float | str):
        return repr(known)
    return None


def _environment(script: Script, call: Call, setting: Setting, variable: str) -> Edits | None:
    value = value_node(script, call, setting)
    gone = _remove(script, call, setting)
    if value is None or gone is None or setting.how not in (How.KEYWORD, How.ITEM):
        return None
    statement = script.statement(setting.owner or call.node)
    if not script.is_bound_before(value, statement):
        return None
    reference = script.reference("os.environ", statement)
    if reference is None or not isinstance(statement, ast.Assign | ast.Expr | ast.AnnAssign):
        return None
    if setting.value is None:
        # None meant the library's own choice; a flag may make another.
        return gone if not setting.by_default else None
    text = script.text(value)
    line = f'{reference.text}["{variable}"] = '
    if isinstance(setting.value, str) or _is_string(script, value):
        line += text
    elif setting.value is UNSURE and isinstance(value, ast.Name | ast.Attribute | ast.IfExp):
        asked = f"({text})" if isinstance(value, ast.IfExp) else text
        line = f"if {asked} is not None:\n    {line}str({text})"
    else:
        line += f"str({text})"
    return (*gone, InsertStatement(script.span(statement), line), *reference.edits)


def _is_string(script: Script, value: ast.expr) -> bool:
    """Whether an expression surely makes a string."""
    if isinstance(value, ast.JoinedStr):
        return True
    return isinstance(value, ast.Call) and script.name(value.func) in _MAKE_STRINGS


_MAKE_STRINGS = frozenset({"builtins.str", "str", "os.path.join", "os.path.abspath"})


def _runtime(script: Script, call: Call, setting: Setting, way: Runtime) -> Edits | None:
    """A limit that the configuration lost: our runtime cuts the data instead."""
    gone = _remove(script, call, setting)
    if setting.value is None and not setting.by_default:
        return gone
    value = value_node(script, call, setting)
    if value is None or gone is None:
        return None
    trainers: tuple[Call, ...] = (call,)
    kept: Edits = ()
    if isinstance(call, Config):
        trainers = script.trainers_with(call)
        if not trainers:
            trainers = takers(script, call)
            assigned = _kept_attribute(script, call, setting, value) if trainers else None
            if assigned is None:
                return None
            kept = assigned
    if len(trainers) != 1:
        return None
    cut = _cut(script, trainers[0], value, way)
    return (*gone, *kept, *cut) if cut is not None else None


def takers(script: Script, config: Config) -> tuple[Call, ...]:
    """Calls of what is not the libraries' that get the configuration as ``args``: trainers of the
    script's own project, most likely made after TRL's."""
    return tuple(
        call
        for call in script.calls
        if call.name.partition(".")[0] not in PACKAGES
        and call.keyword_node("args") is not None
        and isinstance(made := call.setting("args").value, Object)
        and (found := script.config_of(made)) is not None
        and found.node is config.node
    )


def _kept_attribute(
    script: Script, config: Config, setting: Setting, value: ast.expr
) -> Edits | None:
    """``args.max_prompt_length = ...``: a trainer out of sight may well read it there."""
    statement = script.statement(config.node)
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)]) if statement.value is config.node:
            pass
        case _:
            return None
    if setting.how is not How.KEYWORD or setting.owner is not config.node:
        return None
    package = config.kind.partition(".")[0]
    line = (
        f"# No option of {package}'s own any more; a trainer that is not {package}'s may read it.\n"
        f"{name}.{setting.name} = {script.text(value)}"
    )
    return (InsertStatement(script.span(statement), line, "after"),)


def _cut(script: Script, trainer: Call, value: ast.expr, way: Runtime) -> Edits | None:
    """The data that a trainer gets, cut by the runtime: what it trains and what it evaluates."""
    train = _argument(script, trainer, way.argument)
    reference = script.reference(way.function, trainer.node)
    if train is None or reference is None:
        return None
    tokenizer = _tokenizer(script, trainer, train)
    text = _constant_or_bound(script, value, train, trainer)
    if tokenizer is None or text is None:
        return None

    def source(dataset: ast.expr) -> str:
        inner = script.text(dataset)
        if not isinstance(dataset, ast.Name | ast.Attribute | ast.Call | ast.Subscript):
            inner = f"({inner})"
        return way.source.format(dataset=inner, tokenizer=tokenizer[0], value=text).replace(
            way.function.rpartition(".")[2], reference.text
        )

    edits: list[Edit] = [ReplaceExpression(script.span(train), source(train))]
    evaluated = trainer.setting(_EVALUATED)
    if evaluated.given is not False and evaluated.value is not None:
        node = _argument(script, trainer, _EVALUATED)
        cut = _maybe_none(script, node, source) if node is not None else None
        if cut is None:
            return None
        edits.append(cut)
    return (*edits, *reference.edits, *tokenizer[1])


_EVALUATED = "eval_dataset"


def _maybe_none(
    script: Script, node: ast.expr, source: Callable[[ast.expr], str]
) -> ReplaceExpression | None:
    """The change of a dataset that may not be there, or None where it may be several."""
    match node:
        case ast.IfExp(body=body, orelse=ast.Constant(value=None)):
            return ReplaceExpression(script.span(body), source(body))
        case ast.Subscript() | ast.Call():
            return ReplaceExpression(script.span(node), source(node))
        case ast.Name() | ast.Attribute():
            text = source(node)
            if not _is_dataset(script.value(node)):
                # A function out of sight may well return None.
                text = f"{text} if {script.text(node)} is not None else None"
            return ReplaceExpression(script.span(node), text)
    return None


def _is_dataset(value: object) -> bool:
    """Whether a call surely made it a dataset."""
    if not isinstance(value, Object) or value.made_by is None:
        return False
    name = value.made_by.name
    return name.startswith("datasets.") or name.rpartition(".")[2] in _MAKE_DATASETS


# Methods of datasets that return a dataset.
_MAKE_DATASETS = frozenset(
    {"map", "filter", "select", "shuffle", "remove_columns", "rename_column", "select_columns"}
)


def _argument(script: Script, call: Call, name: str) -> ast.expr | None:
    """The expression that a call gets under a name, wherever it is written."""
    keyword = call.keyword_node(name)
    if keyword is not None:
        return keyword.value
    setting = call.setting(name)
    if setting.given is not True:
        return None
    if setting.how is How.POSITIONAL and setting.owner is call.node and name in call.positions:
        before = call.node.args[: call.positions.index(name) + 1]
        return None if any(isinstance(one, ast.Starred) for one in before) else before[-1]
    return value_node(script, call, setting)


def _tokenizer(script: Script, trainer: Call, at: ast.expr) -> tuple[str, Edits] | None:
    """The trainer's tokenizer, what it is given or loads by itself, as source to be read ``at``."""
    for name in ("processing_class", "tokenizer"):
        given = _argument(script, trainer, name)
        if given is not None and trainer.setting(name).value is not None:
            return (script.text(given), ()) if _means_same(script, given, at, trainer) else None
    model = _argument(script, trainer, "model")
    facts = script.model_facts(trainer.setting("model").raw)
    reference = script.reference("transformers.AutoTokenizer", trainer.node)
    if model is None or reference is None or trainer.open_ended:
        return None
    if not _means_same(script, model, at, trainer):
        return None
    text = script.text(model)
    if not facts.by_name:
        if facts.load is None or not isinstance(model, ast.Name | ast.Attribute):
            return None
        # Where the trainer looks for it, too.
        text = f"{text}.config._name_or_path"
    return f"{reference.text}.from_pretrained({text})", reference.edits


def _means_same(script: Script, value: ast.expr, at: ast.expr, call: Call) -> bool:
    """Whether an expression is in ``at`` what it is where it stands: of one call, both are read
    when it is made."""
    here = call.span.contains(script.span(value)) and call.span.contains(script.span(at))
    return here or script.is_bound_before(value, at)


def _constant_or_bound(script: Script, value: ast.expr, at: ast.expr, call: Call) -> str | None:
    if _means_same(script, value, at, call):
        return script.text(value)
    known = script.python(value)
    return repr(known) if isinstance(known, int | str) else None


# -- scripts that look for themselves --------------------------------------------------------------


def is_guarded(script: Script, node: ast.AST) -> bool:
    """Whether the script itself minds versions here: it catches the error, or asks first."""
    for around in script.ancestors(node):
        if isinstance(around, ast.Try) and _within(node, around.body, script):
            few = len(around.body) <= _FEW
            if any(_catches(handler, anything=few) for handler in around.handlers):
                return True
        elif isinstance(around, ast.ExceptHandler):
            # What is done where the new name fails.
            if _catches(around, anything=False):
                return True
        elif isinstance(around, ast.If | ast.IfExp) and "ersion" in script.text(around.test):
            return True
    return False


def _within(node: ast.AST, body: list[ast.stmt], script: Script) -> bool:
    span = script.span(node)
    return any(script.span(statement).contains(span) for statement in body)


# A whole program under ``except Exception`` reports its errors; a few lines under it try something.
_FEW = 3
_OF_VERSIONS = frozenset({"ImportError", "ModuleNotFoundError", "TypeError", "AttributeError"})


def _catches(handler: ast.ExceptHandler, *, anything: bool) -> bool:
    if handler.type is None:
        return anything
    names = {node.id for node in ast.walk(handler.type) if isinstance(node, ast.Name)}
    return not names.isdisjoint(_OF_VERSIONS) or (anything and "Exception" in names)


def written(call: Call, setting: Setting) -> Setting:
    """The setting as the call spells it out, where its value depends on the path.

    A keyword that stands in the call is given whatever its value may be.
    """
    keyword = call.keyword_node(setting.name)
    if setting.given is not None or setting.owner is not None or keyword is None:
        return setting
    return setting._replace(
        given=True, value=UNSURE, how=How.KEYWORD, owner=call.node, node=keyword.value
    )


def names_looked_up(script: Script) -> frozenset[str]:
    """Options that the script looks for in a signature before it passes them."""
    if not script.calls_to("inspect.signature", "inspect.getfullargspec", "dataclasses.fields"):
        return frozenset()
    return frozenset(
        node.value for node in script.nodes(ast.Constant) if isinstance(node.value, str)
    )
