"""What rows are read for: training, evaluation or inference.

A purpose follows from use, not from a name: a column called ``train_text`` trains nothing, and
prompts that only ``generate`` reads need no collator. Data sets that a trainer or a loader reads
are followed by value. Where rows go otherwise is read off the code around them; a use that is out
of sight leaves the purpose unknown.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from enum import StrEnum
from typing import TYPE_CHECKING

from memlint.engine.nodes import walk
from memlint.engine.project import is_elsewhere
from memlint.engine.rows import Rows
from memlint.engine.values import Object, Value, options
from memlint.script.calls import Call

if TYPE_CHECKING:
    from memlint.script.model import Script


def tests_of(script: Script) -> list[ast.AST]:
    """Return the functions that nothing calls but a runner of tests, which knows them by name."""
    return [
        node
        for node, runs in script._run.runs.items()
        if not runs and getattr(node, "name", "").startswith("test_") and not is_elsewhere(node)
    ]


class Purpose(StrEnum):
    """What a data set is read for."""

    TRAINING = "training"
    EVALUATION = "evaluation"
    INFERENCE = "inference"
    UNKNOWN = "unknown"


Purposes = set[Purpose]
_DEPTH = 5
# What returns the rows, or loads them: the purpose is that of the result.
_RETURNS_ROWS = frozenset(
    {"DataLoader", "prepare", "concatenate_datasets", "interleave_datasets", "DatasetDict", "tqdm"}
    | {"enumerate", "iter", "next", "list", "Subset", "ConcatDataset", "zip", "cycle"}
)
_EVALUATES = frozenset({"predict", "evaluate"})
_GENERATES = frozenset({"generate", "pipeline", "batch_generate"})
_STEPS = frozenset({"backward", "train_step", "training_step"})
_SHOWS = frozenset({"print", "pprint", "len", "display", "type", "isinstance", "save_to_disk"})


def purpose_of(script: Script, node: ast.expr) -> Purpose:
    """The purpose of the rows that ``node`` makes; UNKNOWN where a use cannot be followed."""
    readers = {
        dataset.purpose
        for dataset in script.datasets
        if any(_made_at(rows, node) for rows in dataset.rows)
    }
    uses = _Uses(script).of(node, _DEPTH)
    if Purpose.TRAINING in readers | uses:
        return Purpose.TRAINING
    for known in (readers, uses):
        if known and Purpose.UNKNOWN not in known:
            return min(known)
    return Purpose.UNKNOWN


def _made_at(rows: Rows, node: ast.expr) -> bool:
    return rows.made_by is not None and rows.made_by.node is node


# -- readers of data loaders -----------------------------------------------------------------------


def purpose_of_loader(script: Script, loader: Call) -> Purpose:
    """What a data loader is read for, by the loops that read it."""
    found = {
        purpose for loop in _readers(script, loader) if (purpose := purpose_of_loop(script, loop))
    }
    return found.pop() if len(found) == 1 else Purpose.UNKNOWN


def _readers(script: Script, loader: Call) -> Iterator[ast.AST]:
    """The loops that read a data loader, directly or through ``enumerate``, ``tqdm``, ``next``."""
    loops: list[ast.For | ast.AsyncFor] = [*script.nodes(ast.For), *script.nodes(ast.AsyncFor)]
    for loop in loops:
        if _comes_from(script.value(loop.iter), loader.node):
            yield loop
    for generator in script.nodes(ast.comprehension):
        around = script.parent(generator)
        if around is not None and _comes_from(script.value(generator.iter), loader.node):
            yield around
    for call in script.calls_to("next"):
        if _comes_from(call.argument(0), loader.node):
            for invocation in call.invocations:
                loops_around = [
                    one for one in invocation.loops if isinstance(one, ast.For | ast.While)
                ]
                yield from loops_around[-1:]


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


def purpose_of_loop(script: Script, loop: ast.AST) -> Purpose | None:
    """What a loop reads batches for; None where nothing in it is known."""
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


# -- uses of an expression -------------------------------------------------------------------------


class _Uses:
    """Follows the rows that an expression makes through the code around it."""

    def __init__(self, script: Script) -> None:
        self.script = script

    def of(self, node: ast.expr, depth: int) -> Purposes:
        if depth == 0:
            return {Purpose.UNKNOWN}
        node = self._whole(node)
        parent = self.script.parent(node)
        match parent:
            case ast.keyword(arg=str() as name):
                return self._as_argument(node, parent, name, depth)
            case ast.Call() if node in parent.args:
                return self._as_argument(node, parent, None, depth)
            case ast.Assign(targets=[ast.Name(id=name) as target]):
                return self._of_name(name, target, depth)
            case ast.For(iter=iterated) if iterated is node:
                return {self._of_loop(parent)}
            case ast.comprehension(iter=iterated) if iterated is node:
                around = self.script.parent(parent)
                return {self._of_loop(around)} if around is not None else set()
            case ast.Return():
                return self._of_callers(parent, depth)
            case ast.List() | ast.Tuple():
                return self.of(parent, depth - 1)
            case ast.Expr() | ast.FormattedValue():
                return set()
        return {Purpose.UNKNOWN}

    def _whole(self, node: ast.expr) -> ast.expr:
        """``rows.map(f).shuffle()["train"]`` for ``rows``."""
        while True:
            parent = self.script.parent(node)
            match parent:
                case ast.Attribute() if isinstance(self.script.parent(parent), ast.Call):
                    call = self.script.parent(parent)
                    assert isinstance(call, ast.Call)
                    if call.func is not parent:
                        return node
                    node = call
                case ast.Subscript(value=value) if value is node:
                    node = parent
                case _:
                    return node

    def _as_argument(
        self, node: ast.expr, holder: ast.AST, name: str | None, depth: int
    ) -> Purposes:
        call = self.script.parent(holder) if isinstance(holder, ast.keyword) else holder
        if not isinstance(call, ast.Call):
            return {Purpose.UNKNOWN}
        callee = callee_of(call)
        if callee in _SHOWS:
            return set()
        if callee in _EVALUATES:
            return {Purpose.EVALUATION}
        if callee in _GENERATES:
            return {Purpose.INFERENCE}
        if callee in _RETURNS_ROWS:
            return self.of(call, depth - 1)
        known = self.script.call_at(call)
        if name is None and known is not None and node in call.args:
            index = call.args.index(node)
            name = known.positions[index] if index < len(known.positions) else None
        return {_of_parameter(name or "")}

    def _of_name(self, name: str, target: ast.Name, depth: int) -> Purposes:
        script = self.script
        home = script.function(target)
        bound = script.statement(target)
        purposes: Purposes = set()
        for use in script.nodes(ast.Name):
            if use.id != name or not isinstance(use.ctx, ast.Load):
                continue
            if script.function(use) is not home and home is not None:
                continue
            later = script.span(use).start > script.span(bound).start
            if later and script.statement(use) is not bound:
                purposes |= self.of(use, depth - 1)
        return purposes

    def _of_loop(self, loop: ast.AST) -> Purpose:
        methods = {callee_of(node) for node in walk([loop]) if isinstance(node, ast.Call)}
        if methods & _STEPS:
            return Purpose.TRAINING
        if methods & _EVALUATES:
            return Purpose.EVALUATION
        if methods & _GENERATES:
            return Purpose.INFERENCE
        return purpose_of_loop(self.script, loop) or Purpose.UNKNOWN

    def _of_callers(self, returned: ast.Return, depth: int) -> Purposes:
        function = self.script.function(returned)
        if function is None:
            return {Purpose.UNKNOWN}
        calls = [one for one in self.script.nodes(ast.Call) if callee_of(one) == function.name]
        purposes: Purposes = set()
        for call in calls:
            purposes |= self.of(call, depth - 1)
        return purposes if calls else {Purpose.UNKNOWN}


def _of_parameter(name: str) -> Purpose:
    if name.startswith("train"):
        return Purpose.TRAINING
    if name.startswith(("eval", "test", "valid")):
        return Purpose.EVALUATION
    return Purpose.UNKNOWN


def callee_of(call: ast.Call) -> str:
    """The last name of what is called: ``map`` of ``data.map(...)``."""
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
