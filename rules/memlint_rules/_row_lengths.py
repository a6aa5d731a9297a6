"""Whether the rows that a trainer gets differ in length, and what padding them costs.

Padding is a statement about lengths. It holds where the making of a data set is in sight and
nothing in it makes rows equally long: no padding to a maximum, no cutting into blocks. Where a
function from elsewhere makes, loads or maps the rows, nobody can tell.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator

from memlint.rule import Script, Trainer

_DEPTH = 8
# What a data set of Hugging Face returns that is made of its own rows.
_KEEPS_ROWS = frozenset(
    {"select", "shuffle", "filter", "train_test_split", "rename_column", "rename_columns"}
    | {"remove_columns", "select_columns", "cast", "cast_column", "with_format", "set_format"}
    | {"take", "skip", "shard", "sort", "flatten", "add_column", "class_encode_column", "repeat"}
    | {"to_iterable_dataset", "flatten_indices", "get"}
)
_MAPS = frozenset({"map", "with_transform", "set_transform"})
# Rows that were saved by another program may have been cut there.
_SAVED = "load_from_disk"
_BLOCKS = re.compile("group|chunk|pack|block|concat_text")
_LIBRARIES = sys.stdlib_module_names | {
    *("builtins", "datasets", "transformers", "trl", "torch", "numpy", "pandas", "tqdm"),
    *("accelerate", "peft", "bitsandbytes", "tokenizers", "huggingface_hub"),
}


def padded_share(rows: int) -> float:
    """Expected share of padding in a batch of ``rows`` with exponentially distributed lengths.

    The longest of B rows is H_B = 1 + 1/2 + ... + 1/B times the mean, so 1 - 1/H_B is padding.
    """
    return 1 - 1 / sum(1 / row for row in range(1, rows + 1))


def share_of_padding(rows: int, *, pairs: bool = False) -> str:
    """The share in words, with what it rests on. ``pairs``: two rows each share their prompt, so
    that they lie between one length and two."""
    share, why = f"about {padded_share(rows):.0%}", ""
    if pairs:
        share = f"{padded_share(rows // 2):.0%} to {padded_share(rows):.0%}"
        why = ", as the rows of a pair share their prompt"
    return f"for exponentially distributed lengths {share} of the batch is padding{why}"


def lengths_may_differ(script: Script, trainer: Trainer) -> bool:
    """Whether the making of the training set is in sight and leaves rows of several lengths."""
    given = trainer.keyword_node("train_dataset")
    node = given.value if given is not None else None
    positions = trainer.positions
    if node is None and "train_dataset" in positions:
        index = positions.index("train_dataset")
        node = trainer.node.args[index] if index < len(trainer.node.args) else None
    if node is None or isinstance(node, ast.Starred):
        return False
    return _Making(script).is_plain(node, _DEPTH)


class _Making:
    """Follows one data set back to where it is loaded."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.seen: set[ast.AST] = set()

    def is_plain(self, node: ast.expr, depth: int) -> bool:
        """Whether ``node`` is loaded in sight, and nothing on the way makes its rows even."""
        if node in self.seen:
            return True
        self.seen.add(node)
        if depth == 0:
            return False
        match node:
            case ast.Name():
                return self._name(node, depth)
            case ast.Subscript(value=inner) | ast.Await(value=inner):
                return self.is_plain(inner, depth)
            case ast.Attribute(value=ast.Name(id="self") as owner, attr=name):
                return self._attribute(owner, name, depth)
            case ast.Attribute(value=inner):
                return self.is_plain(inner, depth)
            case ast.IfExp(body=body, orelse=orelse):
                return all(self._arm(one, depth) for one in (body, orelse))
            case ast.List() | ast.Dict() | ast.ListComp():
                return True
            case ast.Call():
                return self._call(node, depth)
        return False

    def _arm(self, node: ast.expr, depth: int) -> bool:
        empty = isinstance(node, ast.Constant) and node.value is None
        return empty or self.is_plain(node, depth)

    def _name(self, name: ast.Name, depth: int) -> bool:
        script = self.script
        imported = any((one.asname or one.name) == name.id for _, one, _ in script.imports)
        if imported or any(one.name == "*" for _, one, _ in script.imports):
            return False
        if not script.binds(name.id):
            # A snippet's ``dataset``: nothing is said of it, as of one that is loaded.
            return True
        function = script.function(name)
        values = [*self._assigned(name.id, function)]
        if not values and function is not None:
            if name.id in _parameters(function):
                return self._given(function, name.id, depth)
            values = [*self._assigned(name.id, None)]
        return bool(values) and all(self._arm(one, depth - 1) for one in values)

    def _assigned(self, name: str, function: ast.AST | None) -> Iterator[ast.expr]:
        """What a name is assigned in a function, or at module level."""
        script = self.script
        for target in script.nodes(ast.Name):
            if target.id != name or not isinstance(target.ctx, ast.Store):
                continue
            if script.function(target) is not function:
                continue
            statement = script.statement(target)
            if isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is not None:
                yield statement.value
            else:
                yield target

    def _attribute(self, owner: ast.Name, name: str, depth: int) -> bool:
        values = [
            statement.value
            for statement in self.script.nodes(ast.Assign)
            for target in statement.targets
            if isinstance(target, ast.Attribute) and target.attr == name
            if isinstance(target.value, ast.Name) and target.value.id == owner.id
        ]
        return bool(values) and all(self._arm(one, depth - 1) for one in values)

    def _given(self, function: ast.AST, name: str, depth: int) -> bool:
        """What the callers in sight give for a parameter; nobody's, where there is no caller."""
        assert isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        values: list[ast.expr] = []
        for call in self.script.nodes(ast.Call):
            if not (isinstance(call.func, ast.Name) and call.func.id == function.name):
                continue
            by_name = next((one.value for one in call.keywords if one.arg == name), None)
            index = _parameters(function).index(name)
            if by_name is None and index < len(call.args):
                by_name = call.args[index]
            if by_name is None:
                return False
            values.append(by_name)
        return bool(values) and all(self._arm(one, depth - 1) for one in values)

    def _call(self, call: ast.Call, depth: int) -> bool:
        script = self.script
        name = script.name(call.func) or ""
        if name.startswith("datasets."):
            if name.endswith(_SAVED):
                return False
            parts = [one for given in call.args for one in _listed(given)]
            joins = name.rpartition(".")[2] in ("concatenate_datasets", "interleave_datasets")
            return not joins or all(self.is_plain(one, depth - 1) for one in parts)
        if isinstance(call.func, ast.Attribute):
            method, inner = call.func.attr, call.func.value
            if method in _KEEPS_ROWS:
                return self.is_plain(inner, depth)
            if method in _MAPS:
                return self.is_plain(inner, depth) and self._keeps_lengths(call)
        made = _definition(script, call.func)
        if isinstance(made, ast.FunctionDef):
            returned = [one.value for one in _returns(made) if one.value is not None]
            return bool(returned) and all(self._arm(one, depth - 1) for one in returned)
        return isinstance(made, ast.ClassDef) and not _evens(script, made)

    def _keeps_lengths(self, call: ast.Call) -> bool:
        """Whether the mapped function is in sight and leaves rows of several lengths."""
        named = [one.value for one in call.keywords if one.arg in ("function", "transform")]
        node = next(iter([*named, *call.args]), None)
        if isinstance(node, ast.Call) and node.args:
            # ``partial(tokenize, tokenizer=tokenizer)``
            node = node.args[0]
        function = node if isinstance(node, ast.Lambda) else _definition(self.script, node)
        return function is not None and not _evens(self.script, function)


def _listed(node: ast.expr) -> Iterable[ast.expr]:
    return node.elts if isinstance(node, ast.List | ast.Tuple) else (node,)


def _parameters(function: ast.AST) -> list[str]:
    assert isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
    return [one.arg for one in (*function.args.posonlyargs, *function.args.args)]


def _returns(function: ast.FunctionDef) -> list[ast.Return]:
    return [node for node in ast.walk(function) if isinstance(node, ast.Return)]


def _definition(script: Script, node: ast.expr | None) -> ast.FunctionDef | ast.ClassDef | None:
    """The function, method or class of the script that an expression names."""
    name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", None)
    every: list[ast.FunctionDef | ast.ClassDef] = [
        *script.nodes(ast.FunctionDef),
        *script.nodes(ast.ClassDef),
    ]
    found = [one for one in every if one.name == name]
    return found[0] if len(found) == 1 else None


def _evens(script: Script, holder: ast.AST) -> bool:
    """Whether code may make rows equally long: in sight, or by a function from elsewhere."""
    if _BLOCKS.search(getattr(holder, "name", "").lower()):
        return True
    for node in ast.walk(holder):
        match node:
            case ast.keyword(arg="padding", value=ast.Constant(value="max_length")):
                return True
            case ast.Call(func=ast.Name(id="range"), args=[_, _, _]):
                return True
            case ast.Call(func=callee):
                name = script.name(callee) or ""
                if name and name.partition(".")[0] not in _LIBRARIES:
                    return True
    return False
