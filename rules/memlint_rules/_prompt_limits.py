"""A limit that the configuration lost: the runtime cuts what the trainer gets instead."""

from __future__ import annotations

import ast
from collections.abc import Callable

from memlint.rule import (
    Call,
    Config,
    Edit,
    How,
    InsertStatement,
    Object,
    ReplaceExpression,
    Runtime,
    Script,
    Setting,
)
from memlint_rules._libraries import PACKAGES
from memlint_rules._option_places import Edits, value_node, without_option


def kept_limit(script: Script, call: Call, setting: Setting, way: Runtime) -> Edits | None:
    """A limit that the configuration lost: our runtime cuts the data instead."""
    gone = without_option(script, call, setting)
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
