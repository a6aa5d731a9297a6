"""Where a script turns the texts of its training set into tokens."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from memlint.rule import Call, Script
from memlint_rules._data_roles import role_of

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
METHODS = frozenset(
    {
        "encode",
        "encode_plus",
        "batch_encode_plus",
        "prepare_for_model",
        "apply_chat_template",
        "pad",
    }
)
_MAPS = frozenset({"map", "with_transform", "set_transform"})
# ``load_tokenizer(...)`` returns one, ``tokenizer.as_target_tokenizer()`` changes it.
_MAKES_ONE = (
    *("as_", "get_", "load_", "build_", "create_", "make_"),
    *("init", "setup_", "prepare_", "train_", "save_", "add_"),
)
_SHOWING = frozenset({"print", "pprint", "len", "display", "keys", "type"})
_HELD_OUT = r"(?i)test|eval|valid|dev(?!ice)|infer|predict|bench"


def tokenizer_calls(script: Script) -> Iterator[Call]:
    """Calls of something that is a tokenizer by type or by name; those of processors are not.

    ``tokenizer.pad`` is one too.
    """
    for call in script.calls:
        func = call.node.func
        holder = func
        if isinstance(func, ast.Attribute) and func.attr in METHODS | {"__call__"}:
            holder = func.value
        if _is_tokenizer(script, call, holder):
            yield call


def _is_tokenizer(script: Script, call: Call, holder: ast.expr) -> bool:
    kind = call.name.rpartition(".")[0]
    if "Tokenizer" in kind and "from_" not in call.method:
        return call.method in METHODS | {"__call__"}
    if "Processor" in kind or call.name.endswith(".from_pretrained"):
        return False
    name = holder.attr if isinstance(holder, ast.Attribute) else getattr(holder, "id", "")
    if name.startswith(_MAKES_ONE):
        return False
    if name.lower() in ("tok", "tokenizer") or name.lower().endswith("_tokenizer"):
        # A function of the script that is called so is none.
        return call.name.startswith("?") or "Tokenizer" in call.name or holder is not call.node.func
    return False


def prepared_in(script: Script, call: Call) -> FunctionNode | None:
    """The function around a call, where it prepares a training set; None elsewhere.

    It is mapped over a data set (by itself or by a function that calls it), or makes the items of
    a ``torch.utils.data.Dataset`` with labels or pairs, in a script that trains. What the defaults
    switch off prepares nothing.
    """
    function = script.function(call.node)
    if function is None or not trains(script) or script.is_off_by_default(call.node):
        return None
    if _item_of_data_set(script, function) or _called_for_items(script, function):
        return function
    mapped = any(_for_training(script, one) for one in _mapped(script, function))
    return function if mapped else None


def trains(script: Script) -> bool:
    """Whether the script trains anything."""
    return script.trains


def _for_training(script: Script, mapped: ast.Call) -> bool:
    """Whether mapped rows are trained on: by where they go, else by what the data set is called."""
    role = role_of(script, mapped)
    if role is not None:
        return role == "train"
    statement = script.statement(mapped)
    named = [mapped.func.value] if isinstance(mapped.func, ast.Attribute) else []
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    text = " ".join(script.text(one) for one in (*targets, *named))
    return "train" in text or re.search(_HELD_OUT, text) is None


def _mapped(script: Script, function: FunctionNode, depth: int = 2) -> Iterator[ast.Call]:
    """The calls that map a function over a data set."""
    for node in script.nodes(ast.Call):
        arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
        names = [part for argument in arguments for part in _names(argument)]
        if function.name in names and _callee(node) in _MAPS:
            if not _only_looked_at(script, node) and not script.is_off_by_default(node):
                yield node
        elif depth and _callee(node) == function.name:
            around = script.function(node)
            if around is not None and around is not function:
                yield from _mapped(script, around, depth - 1)


def _only_looked_at(script: Script, mapped: ast.Call) -> bool:
    """Whether the mapped data set gets a name that nothing but ``print`` and its like reads."""
    statement = script.statement(mapped)
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if value is mapped:
            return all(
                _shows(script.statement(node))
                for node in script.nodes(ast.Name)
                if node.id == name
                and isinstance(node.ctx, ast.Load)
                and script.statement(node) is not statement
            )
    return False


def _shows(statement: ast.stmt) -> bool:
    """``print(data[0])``, ``len(data)``, a notebook's ``data``: what shows and changes nothing."""
    if not isinstance(statement, ast.Expr):
        return False
    calls = [node for node in ast.walk(statement) if isinstance(node, ast.Call)]
    return all(_callee(call) in _SHOWING for call in calls)


def _names(argument: ast.expr) -> Iterator[str]:
    """The functions that an argument hands over: ``tokenize``, ``self.tokenize``, in a lambda."""
    match argument:
        case ast.Name(id=name):
            yield name
        case ast.Attribute(attr=name):
            yield name
        case ast.Lambda(body=body):
            for node in ast.walk(body):
                if isinstance(node, ast.Call):
                    yield _callee(node)
        case ast.Call(args=[first, *_]) if _callee(argument) == "partial":
            yield from _names(first)


def _callee(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _item_of_data_set(script: Script, function: FunctionNode) -> bool:
    return _in_data_set(script, function) and (makes_labels(function) or _makes_pairs(function))


def _called_for_items(script: Script, function: FunctionNode) -> bool:
    """Whether a data set's class with labels, of its own or the function's, calls it for them."""
    if re.search(_HELD_OUT, function.name) is not None:
        return False
    homes = {
        script.function(call.node)
        for call in script.method_calls(function.name)
        if isinstance(call.node.func, ast.Name)
    }
    return any(
        home is not None
        and _in_data_set(script, home)
        and (makes_labels(function) or makes_labels(script.enclosing(home, ast.ClassDef)))
        for home in homes
    )


def _in_data_set(script: Script, function: FunctionNode) -> bool:
    """Whether a function is a data set's constructor or makes its items."""
    owner = script.parent(function)
    return (
        isinstance(owner, ast.ClassDef)
        and function.name in ("__getitem__", "__init__")
        and any(ast.unparse(base).endswith("Dataset") for base in owner.bases)
        and re.search(_HELD_OUT, owner.name) is None
    )


def _makes_pairs(function: FunctionNode) -> bool:
    """Whether a function speaks of chosen and rejected answers: a reward model's examples."""
    text = ast.unparse(function)
    return "chosen" in text and "rejected" in text


def makes_labels(holder: ast.AST | None) -> bool:
    """Whether a function, or a class, gives its examples ``labels``."""
    for node in ast.walk(holder) if holder is not None else ():
        match node:
            case ast.Subscript(slice=ast.Constant(value="labels"), ctx=ast.Store()):
                return True
            case ast.Dict(keys=keys) if any(
                isinstance(key, ast.Constant) and key.value == "labels" for key in keys
            ):
                return True
            case ast.keyword(arg="labels"):
                return True
    return False
