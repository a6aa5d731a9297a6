"""How a training step leaves out the padding that all rows of its batch share: it cuts those
columns off before the model gets them.

Rows of one length stay so wherever they are made, stacked and kept. Cut is what a pass gets beside
its attention mask, and what the loss compares with its logits, in one of three forms: a batch that
is unpacked (``**batch``), names, or items (``batch["input_ids"]``, ``ids[step]``).
"""

from __future__ import annotations

import re
import textwrap
from typing import TypeVar

from memlint.engine.nodes import (
    Expression,
    ItemNode,
    NameNode,
    Node,
    Statement,
    WithNode,
    call_itself,
    called_name,
    holder_of,
    literal_of,
    walk,
)
from memlint.engine.usage import Usage, Way
from memlint.flow.following import uses_of
from memlint.runs.changes import together
from memlint.runs.references import reference_to
from memlint.script.calls import Trainer
from memlint.script.forward_passes import Forward, Step
from memlint.script.model import Script
from memlint.script.tokenization import Tokenization
from memlint.source.edits import Edit, InsertStatement, ReplaceExpression, SetKeyword

N = TypeVar("N", bound=Node)
_MASK = "attention_mask"
_COLLATOR = "cut_padding"
# What a pass gets that has a column for each token, by its name or its place.
_OF_TOKENS = {"input_ids": 0, _MASK: 1, "token_type_ids": None, "position_ids": None}
_ONE_LABEL_A_TOKEN = ("MaskedLM", "TokenClassification")
_OTHER_LABELS = ("Seq2SeqLM", "ConditionalGeneration", "SequenceClassification")
_MOVES = ("to", "cuda", "long")


def cut_padding(
    script: Script, made: Tokenization | None = None, *, several: bool = False
) -> tuple[Edit, ...] | None:
    """Edits by which the steps of loops, or a trainer's collator, cut off what is padding in all
    rows of their batches; None where something that is not cut may meet what is.

    made: what pads the rows, where it is known. several: whether others pad them too, so that
    labels may have tokens where inputs have none.
    """
    loads = [one.name for one in script.model_loads]
    if several and not _are_named(loads, _OTHER_LABELS):
        return None
    steps, trainers = script.steps, script.all_trainers
    masked = _makes_mask(script, made)
    if len(trainers) + len(steps) == 0 or any(map(script.binds, ("kept", "cut", _COLLATOR))):
        return None
    if not trainers:
        return together(*(_in_step(script, step, masked) for step in steps))
    alone = len(trainers) == 1 and not steps and trainers == script.trainers
    return _in_collator(script, trainers[0]) if alone and masked else None


def cuts_padding(script: Script) -> bool:
    """True if every step of a loop, or a trainer's collator, asks which columns have any token: it
    cuts the others off."""
    calls = script.method_calls("any")
    asked = [one.node for one in calls if one.keyword_node("dim") and one.setting("dim").value == 0]
    if script.trainers:
        names = {getattr(script.function(one), "name", None) for one in asked}
        given = [one.keyword_node("data_collator") for one in script.trainers]
        return all(one is not None and script.text(one.value) in names for one in given)
    loops = {loop for one in asked for loop in script.flow.loops_around(one)}
    return bool(script.steps) and all(step.node in loops for step in script.steps)


def _makes_mask(script: Script, made: Tokenization | None) -> bool:
    """True if rows have the mask of padding: what makes them, or its class, speaks of it, or hands
    on all that the tokenizer makes."""
    if made is None or made.function is None:
        return script.is_named(_MASK)
    around = script.class_of(made.function) or made.function
    ways = {(use.way, use.name == "items") for use in uses_of(script, made.call.node)}
    whole = any(way in (Way.RETURNED, Way.GIVEN_BACK) or items for way, items in ways)
    chosen = script.is_named("columns", "select_columns", "return_attention_mask")
    whole = whole and (not chosen or script.is_named(_MASK))
    return whole or _MASK in script.text(around)


def _in_collator(script: Script, trainer: Trainer) -> tuple[Edit, ...] | None:
    """A collator around the one that a trainer has."""
    given, statement = trainer.keyword_node("data_collator"), script.statement(trainer.node)
    plain = reference_to(script, "transformers.default_data_collator", trainer.node)
    wanted = _wanted(trainer.model.causal_lm, [one.name for one in trainer.model.loads])
    own = trainer.subclass is not None or trainer.has_unknown_keywords or wanted is None
    chosen = trainer.setting("data_collator")
    unseen = chosen.is_none or (given is None and chosen.given is not False)
    if own or unseen or plain is None or not trainer.kind.startswith("transformers."):
        return None
    inner = script.text(given.value) if given is not None else plain.text
    source = (
        f"def {_COLLATOR}(rows, collate={inner}):\n    batch = collate(rows)\n"
        + textwrap.indent(_cut("batch", wanted or []), "    ")
        + "\n    return batch\n"
    )
    insert = _insert(script, statement, source)
    more = plain.edits if inner == plain.text else ()
    return insert and (*insert, SetKeyword(trainer.span, "data_collator", _COLLATOR), *more)


def _in_step(script: Script, step: Step, masked: bool) -> tuple[Edit, ...] | None:
    passes = step.all_forwards
    loads = [load.name for one in passes for load in one.facts.loads]
    wanted = _wanted({one.facts.causal_lm for one in passes} == {True}, loads)
    labelled = wanted is not None and "labels" in wanted
    names = {**_OF_TOKENS, "labels": None} if labelled else _OF_TOKENS
    if wanted is None or not passes or not all(_is_plain(step, one, names) for one in passes):
        return None
    if all(_unpacked(script, one) for one in passes):
        return _of_batch(script, step, passes, wanted) if masked else None
    return _of_parts(script, step, [_given(one, names) for one in passes], labelled)


def _wanted(causal: bool | None, loads: list[str]) -> list[str] | None:
    """What has a column for each token in a batch of models; None where that is not known."""
    labelled = not _are_named(loads, _OTHER_LABELS)
    if labelled and not (causal or _are_named(loads, _ONE_LABEL_A_TOKEN)):
        return None
    segments = not causal and not _are_named(loads, ("Seq2SeqLM",))
    return ["input_ids", _MASK, *["labels"] * labelled, *["token_type_ids"] * segments]


def _are_named(loads: list[str], parts: tuple[str, ...]) -> bool:
    return loads != [] and all(any(part in name for part in parts) for name in loads)


def _is_plain(step: Step, forward: Forward, names: dict[str, int | None]) -> bool:
    """True if each turn of a loop over rows runs a pass, here, that gets nothing else that may have
    a column for each token."""
    call = forward.node
    more = [one for one in call.keywords if one.arg and one.arg not in names]
    return (
        hasattr(step.node, "target")
        and not forward.elsewhere
        and step.script.flow.is_run_each_turn(step.node, call)
        and len(call.args) <= 2
        and all(literal_of(one.value) is not None or one.arg == "labels" for one in more)
    )


# -- a batch that is unpacked ----------------------------------------------------------------------


def _unpacked(script: Script, forward: Forward) -> str:
    """``batch`` of ``model(**batch)``; nothing where tokens come from elsewhere, too."""
    named = [script.text(_unmoved(o.value)) for o in forward.node.keywords if o.arg is None]
    given = map(script.text, _given(forward, {**_OF_TOKENS, "labels": None}).values())
    alone = len(named) == 1 and named[0].isidentifier() and not forward.node.args
    return named[0] if alone and all(one.startswith(f"{named[0]}[") for one in given) else ""


def _of_batch(
    script: Script, step: Step, passes: tuple[Forward, ...], wanted: list[str]
) -> tuple[Edit, ...] | None:
    batch, first = _unpacked(script, passes[0]), passes[0].node
    uses = [(one, script.use(one)) for one in _nodes(step, NameNode) if one.id == batch]
    taken = [one for one, use in uses if use.way is Way.ITEM or use.name in ("pop", "get")]
    if {_unpacked(script, one) for one in passes} != {batch} or any(
        script.is_before(one, first) for one in taken
    ):
        return None
    return _insert(script, script.statement(first), _cut(batch, wanted))


def _cut(batch: str, wanted: list[str]) -> str:
    names = ", ".join(f'"{name}"' for name in wanted)
    cut = f"cut = {{name: {batch}[name][:, kept] for name in ({names}) if name in {batch}}}"
    return f'{_kept(f"""{batch}["{_MASK}"]""")}\n{cut}\n{batch}.update(cut)'


# -- names and items -------------------------------------------------------------------------------


def _given(forward: Forward, names: dict[str, int | None]) -> dict[str, Expression]:
    """What a pass gets that has a column for each token, before it is moved to the GPU."""
    found, arguments = {}, forward.node.args
    keywords = {one.arg: one.value for one in forward.node.keywords}
    for name, position in names.items():
        placed = arguments[position : position + 1] if position is not None else []
        given: Expression | None = keywords.get(name, placed[0] if placed else None)
        if given is not None:
            found[name] = _unmoved(given)
    return found


def _unmoved(given: Expression) -> Expression:
    """``ids`` of ``ids.to(device)``."""
    moved = call_itself(given)
    held = holder_of(given) if moved is not None and called_name(moved) in _MOVES else None
    return given if held is None else _unmoved(held)


def _of_parts(
    script: Script, step: Step, parts: list[dict[str, Expression]], labelled: bool
) -> tuple[Edit, ...] | None:
    given = [one for each in parts for one in each.values()]
    if not all(_MASK in each for each in parts):
        return None
    cut, kept = dict.fromkeys(map(script.text, given)), _kept(script.text(parts[0][_MASK]))
    before = script.statement(min(given, key=lambda one: script.span(one).start))
    if all(isinstance(one, NameNode) for one in given):
        more = _more_names(script, step, before, cut, labelled)
        if more is None or not all(
            script.flow.is_bound_each_turn(step.node, name, before) for name in cut
        ):
            return None
        cut.update(dict.fromkeys(more))
        parts_cut = ", ".join(f"{name}[:, kept]" for name in cut)
        return _insert(script, before, f"{kept}\n{', '.join(cut)} = {parts_cut}")
    items = [one for one in given if isinstance(one, ItemNode)]
    return _of_items(script, step, items, labelled, kept) if len(items) == len(given) else None


def _more_names(
    script: Script, step: Step, before: Statement, cut: dict[str, None], labelled: bool
) -> list[str] | None:
    """The names of labels that the loss makes one row of; None where something else that a turn
    makes of its batch is read from ``before`` on."""
    head = {*re.findall(r"\w+", script.text(getattr(step.node, "target", before)))}
    parts, start, found = set(head), script.span(before).start, []
    for node in _nodes(step, Statement):
        if script.is_simple(node) and script.span(node).start < start:
            written, _, made = script.text(node).partition("=")
            if made and not parts.isdisjoint(re.findall(r"\w+", made)):
                parts |= {*re.findall(r"\w+", written)}
    for one in _nodes(step, NameNode):
        if one.id in parts.difference(cut) and script.span(one).start >= start:
            use = script.use(one)
            if labelled and _flattens(script, use):
                found.append(one.id)
            elif one.id not in head or use.way in (Way.ITEM, Way.KEY):
                return None
    return found


def _of_items(
    script: Script, step: Step, given: list[ItemNode], labelled: bool, kept: str
) -> tuple[Edit, ...] | None:
    """``batch["input_ids"][:, kept]``, or ``ids[step][:, kept]``, wherever a step reads them."""
    cut, holders = set(map(script.text, given)), {script.text(one.value) for one in given}
    places = {script.text(one.slice) for one in given if isinstance(one.slice, NameNode)}
    edits, found = [], []
    for one in sorted(_nodes(step, ItemNode), key=lambda one: script.span(one).start):
        text, use = script.text(one), script.use(one)
        if script.text(one.value) in holders or script.text(one.slice) in places:
            if use.is_written or not (text in cut or (labelled and _flattens(script, use))):
                return None
            edits.append(ReplaceExpression(script.span(one), f"{text}[:, kept]"))
            found.append(one)
    return together(_insert(script, script.statement(found[0]), kept), tuple(edits))


def _flattens(script: Script, use: Usage) -> bool:
    """True for ``labels.view(-1)``, moved first or not: they are as many as the logits' rows."""
    if use.way is Way.METHOD and use.name in _MOVES:
        use = script.use(use.around)
    return use.way is Way.METHOD and use.name in ("view", "reshape", "flatten")


def _kept(mask: str) -> str:
    return f"kept = {mask}.bool().any(dim=0)"


def _insert(script: Script, before: Statement, source: str) -> tuple[Edit, ...] | None:
    """New statements before one that is no head of a block, or before the ``with`` it begins."""
    if not script.is_simple(before):
        return None
    around = script.parent(before)
    while isinstance(around, WithNode) and around.body[0] is before:
        before, around = around, script.parent(around)
    return (InsertStatement(script.span(before), source),)


def _nodes(step: Step, kind: type[N]) -> list[N]:
    return [node for node in walk([step.node]) if isinstance(node, kind)]
