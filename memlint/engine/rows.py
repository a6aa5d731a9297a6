"""Data sets as the interpreter follows them: where rows come from and what is applied to them.

``Rows`` is made by the functions that load or build data sets, and by each method that returns
another one. What a mapped function does is found by running it where it is mapped, with the
arguments that ``map`` gives it.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from memlint.engine.binding import set_bindings
from memlint.engine.forwards import is_module
from memlint.engine.functions import call_function, can_follow
from memlint.engine.imported import project_value
from memlint.engine.values import (
    UNKNOWN,
    Constant,
    Function,
    Invocation,
    Object,
    Partial,
    Sequence,
    Symbol,
    Value,
    merge,
    options,
)

if TYPE_CHECKING:
    from memlint.engine.interpreter import CallEffect, Interpreter


class Rows(Object):
    """A data set, or a dictionary of them.

    operation: ``load``, ``map``, ``[train]``, ... source: what it was made of, None where loaded.
    function: the function of the script that is mapped; None where it is not one.
    first, last: the order of the calls that one run of that function makes.
    parts: its splits and columns. applied: what ``set_transform`` put on it in place.
    """

    __slots__ = ("applied", "first", "function", "last", "operation", "parts", "source")

    def __init__(self, operation: str, invocation: Invocation, source: Value | None = None) -> None:
        super().__init__(None, invocation, node=invocation.node)
        self.operation = operation
        self.source = source
        self.function: Value | None = None
        self.first = self.last = 0
        self.parts: dict[str, Rows] = {}
        self.applied: list[Rows] = []


LOADERS = (
    *("datasets.load_dataset", "datasets.load_from_disk", "datasets.Dataset.from_dict"),
    *("datasets.Dataset.from_list", "datasets.Dataset.from_pandas", "datasets.Dataset.from_json"),
    *("datasets.Dataset.from_generator", "datasets.Dataset.from_csv", "datasets.DatasetDict"),
    *(
        "datasets.concatenate_datasets",
        "datasets.interleave_datasets",
        "datasets.Dataset.load_from_disk",
    ),
)
_JOINS = ("datasets.concatenate_datasets", "datasets.interleave_datasets")
_APPLY = ("map", "with_transform", "set_transform")
# Methods that return rows of the same lengths: fewer of them, or in another order or form.
KEEPS_ROWS = (
    *("shuffle", "select", "take", "skip", "shard", "train_test_split", "remove_columns"),
    *("rename_column", "rename_columns", "select_columns", "with_format", "cast", "cast_column"),
    *("flatten", "sort", "class_encode_column", "to_iterable_dataset", "add_column", "repeat"),
    *("flatten_indices", "align_labels_with_mapping", "ds", "unique_rows"),
)


def made(run: Interpreter, rows: Rows) -> Rows:
    """A data set that the run knows from here on."""
    run.objects.append(rows)
    run.state.allocated.add(id(rows))
    return rows


def _load(run: Interpreter, invocation: Invocation) -> Value:
    joined = invocation.arguments[0] if invocation.name in _JOINS and invocation.arguments else None
    if isinstance(joined, Sequence):
        known = [one for one in joined.items if isinstance(one, Rows)]
        joined = known[0] if known else None
    rows = made(run, Rows("load", invocation, joined))
    set_bindings(run, rows, invocation.keywords)
    split = invocation.keywords.get("split")
    if split is not None and isinstance(split.value, Sequence) and not split.value.open:
        # ``train, test = load_dataset("a", split=["train", "test"])``
        return Sequence(
            tuple(split_of(run, rows, str(i)) for i in range(len(split.value.items))), "list"
        )
    return rows


def _apply(run: Interpreter, invocation: Invocation) -> Value | None:
    """``data.map(function, fn_kwargs={...})``."""
    source = _source(invocation)
    if source is None or len(invocation.arguments) > 1:
        return None
    rows = made(run, Rows(invocation.name.rpartition(".")[2], invocation, source))
    given = run.argument(invocation, 0, "function") or run.argument(invocation, 0, "transform")
    if given is not None and len(options(given.value)) == 1:
        rows.function = given.value
        _run_mapped(run, invocation, rows, given.value)
    if rows.operation == "set_transform" and isinstance(source, Rows):
        source.applied.append(rows)
        return Constant(None)
    return rows


def _run_mapped(run: Interpreter, invocation: Invocation, rows: Rows, function: Value) -> None:
    call = Invocation(
        invocation.node, "map", invocation.order, loops=run.loop_nest, function=run.function
    )
    more = map(invocation.keywords.get, ("with_indices", "with_rank"))
    counted = [one for one in more if one is not None and one.value == Constant(True)]
    call.arguments = (UNKNOWN,) * (1 + len(counted))
    given = invocation.keywords.get("fn_kwargs")
    if given is not None:
        if isinstance(given.value, Object):
            call.keywords = dict(run.bindings(given.value))
            call.open_keywords = given.value.open
        else:
            call.open_keywords = True
    while isinstance(function, Partial):
        call.arguments = (*function.made_by.arguments[1:], *call.arguments)
        call.keywords = {**function.made_by.keywords, **call.keywords}
        call.open_keywords |= function.made_by.open_keywords
        function = function.callee
    if isinstance(function, Symbol):
        function = project_value(run, function.name) or function
    if not isinstance(function, Function) or not can_follow(run, function):
        return
    rows.function = function
    rows.first = run._order
    call_function(run, function, call)
    rows.last = run._order


def _keep(run: Interpreter, invocation: Invocation) -> Rows | None:
    kept = options(invocation.receiver) if invocation.receiver is not None else [None]
    if not all(isinstance(one, Rows) for one in kept):
        return None
    return made(run, Rows(invocation.name.rpartition(".")[2], invocation, invocation.receiver))


def _filter(run: Interpreter, invocation: Invocation) -> Value | None:
    rows, given = _keep(run, invocation), run.argument(invocation, 0, "function")
    if rows is not None and given is not None and len(options(given.value)) == 1:
        rows.function = given.value
    return rows


def _source(invocation: Invocation) -> Value | None:
    """What a method is called on, where that may be a data set."""
    receiver = invocation.receiver
    if receiver is None or isinstance(receiver, Symbol):
        return None
    if isinstance(receiver, Rows):
        return receiver
    if isinstance(receiver, Object) and (receiver.type is not None or receiver.cls is not None):
        return None
    return receiver


def split_of(run: Interpreter, rows: Rows, key: str) -> Rows:
    """``data["train"]``: one split, or one column."""
    known = rows.parts.get(key)
    if known is None:
        assert rows.made_by is not None, "a call makes every data set"
        known = rows.parts[key] = made(run, Rows(f"[{key}]", rows.made_by, rows))
    return known


def _split(run: Interpreter, invocation: Invocation) -> Value | None:
    """``random_split(data, lengths)``."""
    source, lengths = [*invocation.arguments, None, None][:2]
    if source is None or not isinstance(lengths, Sequence) or lengths.open:
        return None
    rows = [made(run, Rows("random_split", invocation, source)) for _ in lengths.items]
    return Sequence(tuple(rows), "list")


def _parts(run: Interpreter, invocation: Invocation) -> Value | None:
    """``Subset(data, places)``, ``ConcatDataset([data, more])``."""
    given = (*invocation.arguments, *(one.value for one in invocation.keywords.values()))[:1]
    rows = given[0].items if given and isinstance(given[0], Sequence) else given
    return made(run, Rows("parts", invocation, merge(rows))) if rows else None


def _save(run: Interpreter, invocation: Invocation) -> None:
    """``torch.save(rows, path)`` of data sets: what the function reads there are the same."""
    given, path = [*invocation.arguments, UNKNOWN][0], [*invocation.node.args, None, None][1]
    kept = [one for one in options(given) if one != Constant(None)]
    if path is not None and kept and all(map(_is_data, kept)):
        run.saved[run.function, ast.unparse(path)] = merge(kept)


def _is_data(value: Value) -> bool:
    own = isinstance(value, Object) and value.cls is not None and not is_module(value)
    return own or isinstance(value, Rows)


def _read(run: Interpreter, invocation: Invocation) -> Value | None:
    path = next(iter(invocation.node.args), None)
    return run.saved.get((run.function, ast.unparse(path))) if path is not None else None


def row_effects() -> dict[str, CallEffect]:
    """Every effect by the name it answers to."""
    table: dict[str, CallEffect] = dict.fromkeys(LOADERS, _load)
    table |= {f".{name}": _apply for name in _APPLY}
    table |= {f".{name}": _keep for name in KEEPS_ROWS}
    table[".filter"] = _filter
    table |= {"torch.save": _save, "torch.load": _read}
    table["torch.utils.data.random_split"] = _split
    table |= {f"torch.utils.data.{name}": _parts for name in ("Subset", "ConcatDataset")}
    return table
