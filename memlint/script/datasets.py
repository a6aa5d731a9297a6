"""Data sets of a script: from where rows are loaded, through what is mapped, to who reads them.

A data set is what a trainer or a data loader gets. Its purpose is where it goes, never its name.
What each map does to the lengths of rows is read off the calls that one run of its function makes;
where a function is out of sight, or calls one that is, the effect is unknown.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from memlint.engine.definitions import methods_of
from memlint.engine.growth import source_of
from memlint.engine.nodes import Expression, Node, holder_of, is_comprehension
from memlint.engine.preparing import cuts_of, speaks_of_lengths
from memlint.engine.project import is_elsewhere
from memlint.engine.rows import KEEPS_ROWS, Rows
from memlint.engine.values import (
    ABSENT,
    Class,
    Constant,
    Function,
    FunctionNode,
    Invocation,
    Object,
    Partial,
    Sequence,
    Symbol,
    Unknown,
    Value,
    options,
)
from memlint.flow.evaluated import query
from memlint.script.call_settings import Setting
from memlint.script.called import Call
from memlint.script.calls import Host, Trainer
from memlint.script.lengths import (
    Effect,
    Lengths,
    effects_of,
    is_named_for_blocks,
    kept_tokens,
    of_project,
    padding_effects,
)
from memlint.script.purpose import Purpose, purpose_of_loader, purposes_of_loader
from memlint.script.setups import all_trainers_of
from memlint.source import Span
from memlint.source.patterns import lazy_pattern
from memlint.source.record import NamedTuple, Record


class Preparation(NamedTuple):
    """One operation on a data set: ``map``, ``filter``, ``shuffle``, ``[train]``, ``items`` of a
    class of the script, ``collate``.

    call: the call that applies it. function: the function of the script that it runs.
    """

    operation: str
    call: Call | None
    function: FunctionNode | None
    effects: tuple[Effect, ...]


class Dataset(Record):
    """A data set where it is read: by a trainer, or by a data loader.

    value: what is read. purpose: what for. call: the trainer's or the loader's.
    """

    script: Host
    value: Value
    purpose: Purpose
    call: Call
    trainer: Trainer | None

    def __repr__(self) -> str:
        return f"<data set for {self.purpose.value} line {self.call.node.lineno}>"

    @property
    def span(self) -> Span:
        return self.call.span

    @property
    def loader(self) -> Call | None:
        """The data loader that reads it, where the script makes one."""
        return None if self.trainer is not None else self.call

    @property
    def is_trained_on(self) -> bool:
        """True if training reads it, whatever else reads it too."""
        loader = self.loader
        if loader is None or self.purpose is Purpose.TRAINING:
            return self.purpose is Purpose.TRAINING
        return Purpose.TRAINING in purposes_of_loader(self.script, loader)

    @cached_property
    def _chain(self) -> tuple[list[Rows], list[Value]]:
        """What made it, from the load on, and what that begins with otherwise."""
        chain: dict[Rows, None] = {}
        others: list[Value] = []
        pending = [(self.value, self._expression)]
        for value, node in pending:  # grows meanwhile
            for one in options(value):
                if not isinstance(one, Rows):
                    if one != Constant(None) and not (
                        node and _is_defined_elsewhere(self.script, node)
                    ):
                        others.append(one)
                        pending += [(rows, None) for rows in _wrapped_rows(one)]
                elif one not in chain:
                    chain[one] = None
                    if one.source is not None:
                        # ``data`` of ``data.map(...)``.
                        holder = holder_of(one.made_by.node) if one.made_by is not None else None
                        pending.append((one.source, holder))
        return list(chain)[::-1], others

    @property
    def makers(self) -> list[Node]:
        """The calls that make it, from its load on, and the lists that it is, or is made of."""
        chain, others = self._chain
        made = (getattr(one, "made_by", None) for one in (*others, *chain))
        lists = [one.node for one in self._lists if one.node is not None]
        return [*(one.node for one in made if one is not None), *lists]

    @property
    def _expression(self) -> Expression | None:
        name = "train_dataset" if self.purpose is not Purpose.EVALUATION else "eval_dataset"
        keyword = self.call.keyword_node(name if self.trainer is not None else "dataset")
        if keyword is not None:
            return keyword.value
        positions = self.call.positions if self.trainer is not None else (name,)
        index = positions.index(name) if name in positions else len(self.call.node.args)
        return next(iter(self.call.node.args[index:]), None)

    @property
    def rows(self) -> list[Rows]:
        """The data sets that it was made of, in order, as the run knows them."""
        return self._chain[0]

    @property
    def lengths_differ(self) -> bool:
        """True if its making is in sight and neither pads its rows nor cuts them into blocks."""
        made = self.collator
        library = made.type or "" if isinstance(made, Object) and made.cls is None else "trl."
        if not library.startswith(("transformers.", "trl.")):
            # What another library's collator does is not known.
            return False
        return self._rows_differ and not self.does(Lengths.EVENED_OUT)

    @property
    def _rows_differ(self) -> bool:
        if self.load is not None and self.load.method == "load_from_disk":
            # Another program may have cut them.
            return False
        for one in self._chain[1]:
            # How long items are that are computed is not seen.
            written = isinstance(one, Sequence) and not is_comprehension(one.node)
            if not written and not _is_own(one):
                return False
        return not self.does(Lengths.PADDED, Lengths.CUT, Lengths.UNKNOWN)

    @property
    def _of_own_classes(self) -> list[Class]:
        """The classes of the script that make its rows."""
        begins = (one for one in (*options(self.value), *self._chain[1]) if isinstance(one, Object))
        found = {one.cls.node: one.cls for one in begins if one.cls is not None}
        return list(found.values())

    @property
    def load(self) -> Call | None:
        """The call that loads its rows, where the script does."""
        chain = self._chain[0]
        if not chain or chain[0].operation != "load" or chain[0].made_by is None:
            return None
        return self.script.call_at(chain[0].made_by.node)

    @property
    def written_rows(self) -> int | None:
        """How many rows the script itself writes; None where others make them."""
        load = self.load
        given = load.argument(0) if load is not None and load.method in _WRITTEN else None
        columns = [given]
        if isinstance(given, Object) and given.type == "dict":
            columns = [one.value for one in self.script.final_bindings(given).values()]
        sizes = [len(one.items) for one in columns if isinstance(one, Sequence) and not one.open]
        return max(sizes, default=None)

    @cached_property
    def preparations(self) -> tuple[Preparation, ...]:
        """What is applied to it, in order, the collator's last."""
        found = [
            one
            for rows in self._chain[0]
            for part in (rows, *rows.applied)
            if (one := _preparation(self.script, part)) is not None
        ]
        found += _own_items(self.script, self._of_own_classes)
        found += _collation(self.script, self.collator)
        return tuple(found)

    @property
    def invocations(self) -> Iterator[Invocation]:
        """Yield the calls that make its rows: of functions that are mapped, and of the methods of a
        class of the script. What the defaults switch off makes none."""
        script = self.script
        for rows in self._chain[0]:
            if rows.made_by is not None and script.is_off_by_default(rows.made_by.node):
                continue
            for part in (rows, *rows.applied):
                yield from script._invocations_between(part.first, part.last)
        for cls in self._of_own_classes:
            for method in methods_of(cls):
                if method.name in _MAKE_ITEMS:
                    yield from script._invocations_in(method)

    @property
    def _lists(self) -> list[Sequence]:
        """The lists that it is, or is made of."""
        made_by = [one.made_by for one in options(self.value) if isinstance(one, Object)]
        made_by += [one.made_by for one in self.rows]
        given = [value for one in made_by if one is not None for value in one.arguments]
        values = [one for value in (self.value, *given) for one in options(value)]
        return [one for one in values if isinstance(one, Sequence)]

    @property
    def fillings(self) -> Iterator[Invocation]:
        """Yield the calls between which its lists were filled."""
        filled = self.script._run.filled
        for one in self._lists:
            if one.node in filled:
                yield from self.script._invocations_between(*filled[one.node])

    @property
    def effects(self) -> tuple[Effect, ...]:
        """What its preparations do to lengths, in order."""
        return tuple(effect for one in self.preparations for effect in one.effects)

    @property
    def fillers(self) -> tuple[Effect, ...]:
        """Where rows are filled up by hand, to a length that no batch decides, as certainly not a
        number in a collator: the first place of each function."""
        found = {
            self.script.function(effect.node): effect
            for one in self.preparations
            for applied in [getattr(one.call, "node", None)]
            for effect in reversed(one.effects)
            if one.operation != "collate" or effect.tokens is not None
            if effect.kind is Lengths.PADDED and not effect.call and effect.node is not applied
        }
        return tuple(
            effect
            for here, effect in found.items()
            if here and not is_elsewhere(here)
            if not any(one.how in ("block", "turn") for one in cuts_of(here))
        )

    def effects_after(self, call: Call) -> tuple[Effect, ...]:
        """The effects that follow those of a tokenizer's call; none where it has no part here."""
        effects = self.effects
        own = [
            index for index, one in enumerate(effects) if one.call and one.call.node is call.node
        ]
        return effects[own[-1] + 1 :] if own else ()

    def does(self, *kinds: Lengths) -> bool:
        """True if a preparation has one of these effects."""
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


def pads_to_longest(data: Dataset) -> bool:
    """True if the making of rows is in sight and only their collator pads them, each batch to its
    longest."""
    made, evens_out = data.collator, (Lengths.EVENED_OUT, Lengths.PADDED_TO_LONGEST)
    by_library = isinstance(made, Object) and made.cls is None
    pads = getattr(made, "type", "") in PADDING_COLLATORS if by_library else data.does(*evens_out)
    return pads and data._rows_differ


def _is_own(value: Value) -> bool:
    """True if a value is of a class of the script, or of the data sets library."""
    if not isinstance(value, Object):
        return False
    return value.cls is not None or (value.type or "").startswith("datasets.")


def _wrapped_rows(value: Value) -> list[Value]:
    """The data sets that an instance of a class of the script was made of."""
    made = value.made_by if isinstance(value, Object) and value.cls is not None else None
    return [one for one in made.arguments if isinstance(one, Rows)] if made is not None else []


def _is_defined_elsewhere(script: Host, node: Expression) -> bool:
    """True if an expression reads a name that nothing in the script binds: a snippet's ``data``.

    Nothing is known of it, as of one that is loaded.
    """
    root = source_of(node, KEEPS_ROWS) if not is_elsewhere(node) else None
    imported = {alias.asname or alias.name for _, alias, _ in script.imports}
    return root is not None and not (script.binds(root) or root in imported or "*" in imported)


# -- preparations ----------------------------------------------------------------------------------


def _preparation(script: Host, rows: Rows) -> Preparation | None:
    invocation = rows.made_by
    if invocation is None or rows.operation == "load":
        return None
    call = script.call_at(invocation.node)
    function = rows.function
    node = function.node if isinstance(function, Function) else None
    if rows.operation in ("map", "with_transform", "set_transform"):
        if node is None or not rows.last:
            # It was never run.
            made = function.type if isinstance(function, Object) else None
            known = made is not None and "Tokenizer" in made
            kind = Lengths.TOKENIZED if known else Lengths.UNKNOWN
            return Preparation(rows.operation, call, node, (Effect(kind, None, invocation.node),))
        invocations = script._invocations_between(rows.first, rows.last)
        effects = tuple(
            # What code in another file does has its place where that code is applied.
            Effect(one.kind, one.tokens, invocation.node) if is_elsewhere(one.node) else one
            for one in effects_of(script, node, invocations)
        )
        return Preparation(rows.operation, call, node, effects)
    if rows.operation == "filter":
        measures = node is None or speaks_of_lengths(node)
        most = kept_tokens(script, node)
        effects = (Effect(Lengths.FILTERED, most, invocation.node),) if measures else ()
        return Preparation("filter", call, node, effects)
    return Preparation(rows.operation, call, None, ())


def _own_items(script: Host, classes: list[Class]) -> Iterator[Preparation]:
    """What the script's own data set classes do when they are made and when items are read."""
    for cls in classes:
        for method in methods_of(cls):
            if method.name in _MAKE_ITEMS:
                effects = tuple(effects_of(script, method, script._invocations_in(method)))
                if is_named_for_blocks(cls.node):
                    effects += (Effect(Lengths.CUT, None, cls.node),)
                yield Preparation("items", None, method, effects)


def _collators(script: Host, collator: Value) -> Iterator[Value]:
    """What may collate: what a ``partial`` is of, and what another file defines."""
    for value in options(collator):
        one = value.callee if isinstance(value, Partial) else value
        yield of_project(script, one)


def _collation(script: Host, collator: Value) -> Iterator[Preparation]:
    for one in _collators(script, collator):
        node: FunctionNode | None = None
        if isinstance(one, Function):
            node = one.node
        elif isinstance(one, Object) and one.cls is not None:
            node = next(
                (m for m in methods_of(one.cls) if m.name in ("__call__", "torch_call")), None
            )
        elif isinstance(one, Object) and (call := script.call_at(one.node)) is not None:
            # ``DataCollatorWithPadding(tokenizer, padding="max_length", max_length=512)``
            known = call.name.startswith("transformers.")
            yield Preparation("collate", call, None, tuple(padding_effects(call) if known else ()))
        elif isinstance(one, Symbol | Unknown):
            known = isinstance(one, Symbol) and one.name.startswith("transformers.")
            unknown = Effect(Lengths.UNKNOWN, None, script.tree)
            yield Preparation("collate", None, None, () if known else (unknown,))
        if node is not None:
            effects = tuple(effects_of(script, node, script._invocations_in(node)))
            yield Preparation("collate", None, node, effects)


# -- who reads data sets ---------------------------------------------------------------------------

_LOADER = "torch.utils.data.DataLoader"
PADDING_COLLATORS = (
    "transformers.DataCollatorWithPadding", "transformers.DataCollatorForSeq2Seq",
    "transformers.DataCollatorForLanguageModeling",
)  # fmt: skip
_WRITTEN = ("from_dict", "from_list")
_MAKE_ITEMS = ("__init__", "__getitem__", "__iter__")


@query
def datasets_of(script: Host) -> tuple[Dataset, ...]:
    """The data sets that trainers and data loaders read, in source order."""
    here = [one for one in all_datasets_of(script) if not is_elsewhere(one.call.node)]
    return tuple(sorted(here, key=lambda one: one.span))


@query
def all_datasets_of(script: Host) -> tuple[Dataset, ...]:
    """Those that trainers and loaders of other files of the project read, too."""
    found: list[Dataset] = []
    for trainer in all_trainers_of(script):
        for name, purpose in (
            ("train_dataset", Purpose.TRAINING if trainer.trains else Purpose.UNKNOWN),
            ("eval_dataset", Purpose.EVALUATION),
        ):
            setting = trainer.setting(name)
            if setting.given is not False and not setting.is_none:
                found.append(Dataset(script, setting.raw, purpose, trainer, trainer))
    for call in script.calls_anywhere(_LOADER):
        setting = call.setting("dataset")
        value = setting.raw if setting.given else call.argument(0)
        found.append(Dataset(script, value, purpose_of_loader(script, call), call, None))
    return tuple(found)


# -- limits elsewhere ------------------------------------------------------------------------------

_WITH_STEP = 3
_SHORTENS = lazy_pattern("trunc|group|chunk|pack|crop")


@query
def may_shorten_rows(script: Host) -> bool:
    """True if rows may be cut, split into blocks or dropped after they are tokenized."""
    collators = script.given_as("data_collator", "collate_fn")
    return bool(
        script.method_calls_anywhere("filter", "enable_truncation")
        or any(map(script.is_target, script.attributes("model_max_length")))
        # ``range(0, total, block_size)``: texts are joined and cut into blocks.
        or any(len(call.args) == _WITH_STEP for call in script.calls_named("range"))
        or any(_SHORTENS.search(one.name) for one in script.functions)
        or any(_may_cut(script, one) for one in collators)
    )


def _may_cut(script: Host, collator: Expression) -> bool:
    """Collators of transformers pad and do not cut; others may."""
    value = script.value(collator)
    kind = value.type if isinstance(value, Object) else script.name(collator)
    return kind is None or not kind.startswith("transformers.")


@query
def streams_data(script: Host) -> bool:
    """True if a data set may be streamed: it cannot be walked before training."""
    settings = [call.setting("streaming") for call in script.method_calls_anywhere("load_dataset")]
    return any(one.given is not False and one.value is not False for one in settings)
