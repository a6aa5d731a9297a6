"""Data sets of a script: from where rows are loaded, through what is mapped, to who reads them.

A data set is what a trainer or a data loader gets. Its purpose is where it goes, never its name.
What each map does to the lengths of rows is read off the calls that one run of its function makes;
where a function is out of sight, or calls one that is, the effect is unknown.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from memlint.script.calls import Call, Trainer
from memlint.script.invocations import Record
from memlint.script.project import is_elsewhere
from memlint.script.rows import Rows
from memlint.script.settings import Setting
from memlint.script.tree import walk
from memlint.script.values import (
    ABSENT,
    Class,
    Function,
    Object,
    Sequence,
    Symbol,
    Unknown,
    Value,
    options,
)
from memlint.source import Span

if TYPE_CHECKING:
    from memlint.script.model import Script

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


class Purpose(StrEnum):
    """What a data set is read for."""

    TRAINING = "training"
    EVALUATION = "evaluation"
    INFERENCE = "inference"
    UNKNOWN = "unknown"


class Lengths(StrEnum):
    """What a preparation does to the lengths of rows."""

    TOKENIZED = "tokenized without a limit"
    TRUNCATED = "truncated"
    PADDED = "padded to a fixed length"
    PADDED_TO_LONGEST = "padded to the longest"
    CUT = "cut into blocks"
    FILTERED = "filtered by length"
    UNKNOWN = "unknown"


class Effect(NamedTuple):
    """One thing that a preparation does to lengths.

    tokens: the length, where it is a number that is known. call: the tokenizer's call, where one
    does it. node: where it is written.
    """

    kind: Lengths
    tokens: int | None
    node: ast.AST
    call: Call | None = None


class Preparation(NamedTuple):
    """One operation on a data set: ``map``, ``filter``, ``shuffle``, ``[train]``, ``items`` of a
    class of the script, ``collate``.

    call: the call that applies it. function: the function of the script that it runs.
    """

    operation: str
    call: Call | None
    function: FunctionNode | None
    effects: tuple[Effect, ...]


class Dataset:
    """A data set where it is read: by a trainer, or by a data loader.

    value: what is read. purpose: what for. call: the trainer's or the loader's. complete: whether
    it was followed back to where it is loaded or made.
    """

    def __init__(
        self,
        script: Script,
        value: Value,
        purpose: Purpose,
        call: Call,
        trainer: Trainer | None,
    ) -> None:
        self.script = script
        self.value = value
        self.purpose = purpose
        self.call = call
        self.trainer = trainer

    def __repr__(self) -> str:
        return f"<data set for {self.purpose.value} line {self.call.node.lineno}>"

    @property
    def span(self) -> Span:
        return self.call.span

    @property
    def loader(self) -> Call | None:
        """The data loader that reads it, where the script makes one."""
        return None if self.trainer is not None else self.call

    @cached_property
    def _chain(self) -> tuple[list[Rows], bool]:
        found: list[Rows] = []
        value: Value | None = self.value
        while value is not None:
            known = options(value)
            if len(known) != 1 or not isinstance(known[0], Rows):
                return found[::-1], _is_made_here(value)
            found.append(known[0])
            value = known[0].source
        return found[::-1], True

    @property
    def complete(self) -> bool:
        return self._chain[1]

    @property
    def load(self) -> Call | None:
        """The call that loads its rows, where the script does."""
        chain = self._chain[0]
        if not chain or chain[0].operation != "load" or chain[0].made_by is None:
            return None
        return self.script.call_at(chain[0].made_by.node)

    @cached_property
    def preparations(self) -> tuple[Preparation, ...]:
        """What is applied to it, in order, the collator's last."""
        found = [
            one
            for rows in self._chain[0]
            for part in (rows, *rows.applied)
            if (one := _preparation(self.script, part)) is not None
        ]
        found += _own_items(self.script, self.value)
        found += _collation(self.script, self.collator)
        return tuple(found)

    @property
    def effects(self) -> tuple[Effect, ...]:
        """What its preparations do to lengths, in order."""
        return tuple(effect for one in self.preparations for effect in one.effects)

    def does(self, *kinds: Lengths) -> bool:
        """Whether a preparation has one of these effects."""
        return any(effect.kind in kinds for effect in self.effects)

    @property
    def collator(self) -> Value:
        """What makes batches of rows; ABSENT where it is left to the library."""
        name = "data_collator" if self.trainer is not None else "collate_fn"
        setting = self.call.setting(name)
        return setting.raw if setting.given is not False else ABSENT

    @property
    def batch_size(self) -> Setting | None:
        """The setting of rows a batch, of the loader or of the trainer's configuration."""
        if self.trainer is None:
            return self.call.setting("batch_size")
        config = self.trainer.config
        if config is None:
            return None
        training = self.purpose is Purpose.TRAINING
        return config.effective(f"per_device_{'train' if training else 'eval'}_batch_size")


def _is_made_here(value: Value) -> bool:
    """Whether all is known of a value that is no data set of the library's: a class of the script,
    a list."""
    if isinstance(value, Sequence):
        return True
    return isinstance(value, Object) and (value.cls is not None or value.type is not None)


# -- preparations ----------------------------------------------------------------------------------


def _preparation(script: Script, rows: Rows) -> Preparation | None:
    record = rows.made_by
    if record is None or rows.operation == "load":
        return None
    call = script.call_at(record.node)
    function = rows.function
    if rows.operation in ("map", "with_transform", "set_transform"):
        node = function.node if isinstance(function, Function) else None
        if node is None or rows.last <= rows.first:
            known = _is_tokenizer_value(function)
            kind = Lengths.TOKENIZED if known else Lengths.UNKNOWN
            return Preparation(rows.operation, call, node, (Effect(kind, None, record.node),))
        records = script.records_between(rows.first, rows.last)
        effects = tuple(_here(effect, record.node) for effect in effects_of(script, node, records))
        return Preparation(rows.operation, call, node, effects)
    if rows.operation == "filter":
        node = function.node if isinstance(function, Function) else None
        effects = (Effect(Lengths.FILTERED, None, record.node),) if _measures(node) else ()
        return Preparation("filter", call, node, effects)
    return Preparation(rows.operation, call, None, ())


def _here(effect: Effect, applied: ast.Call) -> Effect:
    """An effect of code in another file has its place where that code is applied."""
    if not is_elsewhere(effect.node):
        return effect
    return Effect(effect.kind, effect.tokens, applied, None)


def _measures(function: FunctionNode | None) -> bool:
    """Whether a function looks at lengths, or may."""
    if function is None:
        return True
    for node in walk([function]):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "len":
            return True
        if isinstance(node, ast.Constant | ast.Attribute):
            word = node.value if isinstance(node, ast.Constant) else node.attr
            if isinstance(word, str) and "len" in word.lower():
                return True
    return False


def _own_items(script: Script, value: Value) -> Iterator[Preparation]:
    """What the script's own data set class does when it is made and when items are read."""
    for one in options(value):
        if not isinstance(one, Object) or one.cls is None or isinstance(one, Rows):
            continue
        for method in _methods(one.cls):
            if method.name in ("__init__", "__getitem__", "__iter__"):
                effects = tuple(effects_of(script, method, script.records_in(method)))
                yield Preparation("items", None, method, effects)


def _methods(cls: Class) -> Iterator[ast.FunctionDef]:
    seen = set()
    pending = [cls]
    for one in pending:  # grows meanwhile
        for statement in one.node.body:
            if isinstance(statement, ast.FunctionDef) and statement.name not in seen:
                seen.add(statement.name)
                yield statement
        pending += [base for base in one.bases if isinstance(base, Class)]


def _collation(script: Script, collator: Value) -> Iterator[Preparation]:
    for one in options(collator):
        node: FunctionNode | None = None
        if isinstance(one, Function):
            node = one.node
        elif isinstance(one, Object) and one.cls is not None:
            node = next(
                (m for m in _methods(one.cls) if m.name in ("__call__", "torch_call")), None
            )
        elif isinstance(one, Object):
            yield from _library_collation(script, one)
        elif isinstance(one, Symbol | Unknown):
            known = isinstance(one, Symbol) and one.name.startswith("transformers.")
            unknown = Effect(Lengths.UNKNOWN, None, script.tree)
            yield Preparation("collate", None, None, () if known else (unknown,))
        if node is not None:
            effects = tuple(effects_of(script, node, script.records_in(node)))
            yield Preparation("collate", None, node, effects)


def _library_collation(script: Script, made: Object) -> Iterator[Preparation]:
    """``DataCollatorWithPadding(tokenizer, padding="max_length", max_length=512)``."""
    call = script.call_at(made.node)
    if call is None:
        return
    effects: list[Effect] = []
    if call.name.startswith("transformers."):
        effects = list(_padding(call))
    yield Preparation("collate", call, None, tuple(effects))


# -- effects on lengths ----------------------------------------------------------------------------

_TOKENIZING = frozenset(
    {"encode", "encode_plus", "batch_encode_plus", "prepare_for_model", "apply_chat_template"}
)
_OTHER = frozenset({"pad", "__call__"})
# ``load_tokenizer(...)`` returns one, ``tokenizer.as_target_tokenizer()`` changes it.
_MAKES_ONE = (
    *("as_", "get_", "load_", "build_", "create_", "make_"),
    *("init", "setup_", "prepare_", "train_", "save_", "add_"),
)
# What cannot change lengths unseen: its effects are known, or are read off its calls.
_KNOWN_PACKAGES = frozenset(
    {
        *("datasets", "transformers", "torch", "numpy", "itertools", "functools", "copy", "math"),
        *("re", "json", "random", "collections", "os", "time", "logging", "string", "operator"),
        *("trl", "typing", "warnings", "pathlib", "hashlib", "sys", "ast", "textwrap", "PIL"),
    }
)
_LENGTH_WORDS = ("ids", "input", "token", "label", "mask", "text_chunk", "seq")


def effects_of(
    script: Script, function: FunctionNode, records: Iterable[Record]
) -> Iterator[Effect]:
    """What a run of a function does to the lengths of rows. ``records``: the calls of that run."""
    functions: dict[ast.AST, None] = {function: None}
    for record in records:
        if record.function is not None:
            functions[record.function] = None
        node = record.node
        call = script.call_anywhere(node)
        if call is None:
            continue
        if is_tokenizer_call(call):
            yield from tokenizer_effects(call)
        elif _is_out_of_sight(call, record):
            yield Effect(Lengths.UNKNOWN, None, node, call)
    for one in functions:
        yield from _written_effects(script, one)


def _is_out_of_sight(call: Call, record: Record) -> bool:
    """Whether a function elsewhere is called, that may do anything to rows."""
    package = call.name.split(".")[0]
    if call.name.startswith("."):
        return True
    if "?" in call.name:
        return call.name == "?" and not isinstance(record.node.func, ast.Attribute)
    return "." in call.name and package not in _KNOWN_PACKAGES and record.receiver is None


def is_tokenizer_call(call: Call) -> bool:
    """Whether something that is a tokenizer, by type or by name, is called to make tokens."""
    func = call.node.func
    holder = func
    if isinstance(func, ast.Attribute) and func.attr in _TOKENIZING | _OTHER:
        holder = func.value
    kind = call.name.rpartition(".")[0]
    if "Tokenizer" in kind and "from_" not in call.method:
        return call.method in _TOKENIZING | _OTHER
    if "Processor" in kind or call.name.endswith(".from_pretrained"):
        return False
    name = holder.attr if isinstance(holder, ast.Attribute) else getattr(holder, "id", "")
    if name.startswith(_MAKES_ONE):
        return False
    lower = name.lower()
    if lower in ("tok", "tokenizer") or lower.endswith("_tokenizer"):
        # A function of the script that is called so is none.
        return call.name.startswith("?") or "Tokenizer" in call.name or holder is not func
    return False


def _is_tokenizer_value(value: Value | None) -> bool:
    return isinstance(value, Object) and value.type is not None and "Tokenizer" in value.type


def tokenizer_effects(call: Call) -> Iterator[Effect]:
    """What a tokenizer's call does to lengths."""
    if call.method == "apply_chat_template" and call.setting("tokenize").value is False:
        return
    if call.method != "pad":
        yield from _truncation(call)
    yield from _padding(call)


def _truncation(call: Call) -> Iterator[Effect]:
    setting = call.setting("truncation")
    tokens = _tokens(call)
    overflow = call.setting("return_overflowing_tokens")
    if overflow.given is not False and overflow.value is not False:
        yield Effect(
            Lengths.CUT if overflow.value is True else Lengths.UNKNOWN, tokens, call.node, call
        )
    elif setting.given is False or setting.value is False or setting.value in ("do_not_truncate",):
        yield Effect(Lengths.TOKENIZED, None, call.node, call)
    elif setting.value is True or isinstance(setting.value, str):
        yield Effect(Lengths.TRUNCATED, tokens, call.node, call)
    else:
        yield Effect(Lengths.UNKNOWN, None, call.node, call)


def _padding(call: Call) -> Iterator[Effect]:
    setting = call.setting("padding")
    if setting.value == "max_length":
        yield Effect(Lengths.PADDED, _tokens(call), call.node, call)
    elif setting.value is True or setting.value == "longest":
        yield Effect(Lengths.PADDED_TO_LONGEST, None, call.node, call)
    elif setting.given is not False and not setting.known:
        yield Effect(Lengths.UNKNOWN, None, call.node, call)


def _tokens(call: Call) -> int | None:
    value = call.setting("max_length").value
    return value if type(value) is int else None


def _written_effects(script: Script, function: ast.AST) -> Iterator[Effect]:
    """What is done to lists by hand: cut into blocks, cut off, filled up."""
    body = function.body if isinstance(function, FunctionNode) else []
    for node in walk(body if isinstance(body, list) else [body]):
        match node:
            case ast.Subscript(
                slice=ast.Slice(
                    lower=ast.Name(id=low), upper=ast.BinOp(ast.Name(id=also), ast.Add(), size)
                )
            ) if low == also:
                yield Effect(Lengths.CUT, _number(script, size), node)
            case ast.Subscript(value=inner, slice=ast.Slice(lower=None, upper=upper)) if (
                upper is not None
                and not isinstance(upper, ast.UnaryOp)
                and _is_tokens(script, inner)
            ):
                yield Effect(Lengths.TRUNCATED, _number(script, upper), node)
            case ast.BinOp(
                left=ast.List(), op=ast.Mult(), right=ast.BinOp(left=size, op=ast.Sub())
            ) if "len(" in script.text(node):
                yield Effect(Lengths.PADDED, _number(script, size), node)


def _is_tokens(script: Script, node: ast.expr) -> bool:
    text = script.text(node).lower()
    return any(word in text for word in _LENGTH_WORDS)


def _number(script: Script, node: ast.expr) -> int | None:
    value = script.python(node)
    return value if type(value) is int else None


# -- who reads data sets ---------------------------------------------------------------------------

_LOADER = "torch.utils.data.DataLoader"


def datasets_of(script: Script) -> tuple[Dataset, ...]:
    """The data sets that trainers and data loaders read, in source order."""
    found: list[Dataset] = []
    for trainer in script.trainers:
        for name, purpose in (
            ("train_dataset", Purpose.TRAINING),
            ("eval_dataset", Purpose.EVALUATION),
        ):
            setting = trainer.setting(name)
            if setting.given is not False and not setting.is_none:
                found.append(Dataset(script, setting.raw, purpose, trainer, trainer))
    for call in script.calls_to(_LOADER):
        setting = call.setting("dataset")
        value = setting.raw if setting.given else call.argument(0)
        found.append(Dataset(script, value, _purpose(script, call), call, None))
    return tuple(sorted(found, key=lambda one: one.span))


def _purpose(script: Script, loader: Call) -> Purpose:
    """What a data loader is read for, by the loops that read it."""
    found = {purpose for loop in _readers(script, loader) if (purpose := _of_loop(script, loop))}
    return found.pop() if len(found) == 1 else Purpose.UNKNOWN


def _readers(script: Script, loader: Call) -> Iterator[ast.AST]:
    """The loops that read a data loader, directly or through ``enumerate``, ``tqdm``, ``next``."""
    loops: list[ast.For | ast.AsyncFor] = [*script.nodes(ast.For), *script.nodes(ast.AsyncFor)]
    for loop in loops:
        if _comes_from(script.value(loop.iter), loader.node):
            yield loop
    for call in script.calls_to("next"):
        if _comes_from(call.argument(0), loader.node):
            for record in call.records:
                around = [one for one in record.loops if isinstance(one, ast.For | ast.While)]
                yield from around[-1:]


def _comes_from(value: Value, loader: ast.Call, depth: int = 4) -> bool:
    for one in options(value):
        if isinstance(one, Object) and one.made_by is not None:
            if one.made_by.node is loader:
                return True
            if depth and one.type is None:
                given = one.made_by.arguments
                if any(_comes_from(part, loader, depth - 1) for part in given):
                    return True
    return False


def _of_loop(script: Script, loop: ast.AST) -> Purpose | None:
    for step in script.steps:
        if loop is step.node or loop in step.epochs:
            return Purpose.TRAINING
    generates = any(
        loop in event.loops and event.kind.value == "generate" for event in script.events
    )
    inside = [one for one in script.forwards if any(loop in run.loops for run in one.runs)]
    if generates and not inside:
        return Purpose.INFERENCE
    if any(one.gradients is False or one.training is False for one in inside):
        return Purpose.EVALUATION
    return Purpose.EVALUATION if inside else None
