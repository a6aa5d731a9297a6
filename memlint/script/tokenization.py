"""Where a script turns text into tokens, and whether the rows that it makes are trained on."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from memlint.engine.nodes import walk
from memlint.engine.values import FunctionNode, Object
from memlint.script.calls import Call
from memlint.script.guesses import is_held_out_name, may_be_held_out
from memlint.script.purpose import Purpose, callee_of, purpose_of

if TYPE_CHECKING:
    from memlint.script.model import Script

_TOKENIZING = frozenset(
    {"encode", "encode_plus", "batch_encode_plus", "prepare_for_model", "apply_chat_template"}
)
_METHODS = _TOKENIZING | {"pad", "__call__"}
_FROM_TEXT = frozenset({"__call__", "encode", "encode_plus", "batch_encode_plus"})
# ``load_tokenizer(...)`` returns one, ``tokenizer.as_target_tokenizer()`` changes it.
_MAKES_ONE = (
    *("as_", "get_", "load_", "build_", "create_", "make_"),
    *("init", "setup_", "prepare_", "train_", "save_", "add_"),
)
_MAPS = frozenset({"map", "with_transform", "set_transform"})
_COLLATORS = frozenset({"collate_fn", "data_collator"})
_SHOWS = frozenset({"print", "pprint", "len", "display", "keys", "type"})
_SHORTENING = ("truncated", "cut into blocks", "filtered by length", "unknown")
_TENSORS = frozenset({"clone", "squeeze", "shape", "size", "tolist", "flatten"})


def is_tokenizer_call(call: Call) -> bool:
    """True if something that is a tokenizer, by type or by name, is called to make tokens.

    ``tokenizer.pad`` counts; calls of processors do not.
    """
    func = call.node.func
    holder = func
    if isinstance(func, ast.Attribute) and func.attr in _METHODS:
        holder = func.value
    kind = call.name.rpartition(".")[0]
    if "Tokenizer" in kind and "from_" not in call.method:
        return call.method in _METHODS
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


class Tokenization:
    """One place where a tokenizer is called.

    call: the call. function: the function around it that prepares rows or makes batches: a lambda
    that is mapped or collates, else the definition; None at module level.
    """

    def __init__(self, script: Script, call: Call) -> None:
        self.script = script
        self.call = call

    def __repr__(self) -> str:
        return f"<tokenization line {self.call.node.lineno}>"

    @property
    def from_text(self) -> bool:
        """True if it turns text into tokens; a chat template may only make text, ``pad`` gets
        tokens."""
        call, written = self.call, self.call.node.func
        if call.name.startswith("transformers.") or not isinstance(written, ast.Attribute):
            return call.method in _FROM_TEXT or not isinstance(written, ast.Attribute)
        return written.attr in _FROM_TEXT or written.attr not in _METHODS

    @cached_property
    def function(self) -> FunctionNode | None:
        for around in self.script.ancestors(self.call.node):
            if isinstance(around, ast.Lambda) and _is_handed_over(self.script, around):
                return around
            if isinstance(around, ast.FunctionDef | ast.AsyncFunctionDef):
                return around
        return None

    @cached_property
    def prepares_training(self) -> bool:
        """True if the function around it prepares a training set.

        It is mapped over a data set (by itself or by a function that calls it), or makes the items
        of a ``torch.utils.data.Dataset`` with labels or pairs, in a script that trains. What the
        defaults switch off prepares nothing.
        """
        script, function = self.script, self.function
        if function is None or not script.trains or script.is_off_by_default(self.call.node):
            return False
        if not isinstance(function, ast.Lambda) and (
            _makes_items(script, function) or _is_called_for_items(script, function)
        ):
            return True
        return any(_is_for_training(script, one) for one in _mapped(script, function))

    @cached_property
    def collates_training(self) -> bool:
        """True if it makes batches to train on, in a collator of the script's own, in every run."""
        script, function = self.script, self.function
        if function is None or not script.trains:
            return False
        if script.enclosing(self.call.node, ast.If) is not None:
            # As in ``if on_tpu:``: for some runs only.
            return False
        around = script.parent(function)
        if isinstance(function, ast.Lambda):
            return isinstance(around, ast.keyword) and around.arg in _COLLATORS
        if isinstance(around, ast.ClassDef) and function.name in ("__call__", "torch_call"):
            return "ollat" in around.name
        return _is_collator(script, function) and not _collates_held_out(script, function)

    # -- the function around it ------------------------------------------------------------------

    @property
    def pads(self) -> bool:
        """True if it pads its rows, or may: to one length, or to the longest of them."""
        padding = self.call.setting("padding")
        return padding.given is not False and padding.value not in (False, None, "do_not_pad")

    @property
    def makes_labels(self) -> bool:
        """True if the function gives its rows ``labels``."""
        return makes_labels(self.function)

    @cached_property
    def labels_copy_inputs(self) -> bool:
        """True if the labels are a plain copy of the input ids, so that both stay equally long."""
        if self.function is None:
            return False
        nodes = walk([self.function])
        tokenizer = self.script.text(self.call.node.func)
        calls = [node for node in nodes if isinstance(node, ast.Call)]
        if sum(self.script.text(node.func) == tokenizer for node in calls) != 1:
            return False
        values = [value for node in nodes for value in _labels(node)]
        return bool(values) and all(map(_is_copy_of_inputs, values))

    @cached_property
    def makes_lists(self) -> bool:
        """True if the function makes lists, which may differ in length, and no tensors."""
        call, function = self.call, self.function
        if (
            function is None
            or call.has_unknown_keywords
            or call.setting("return_tensors").given is not False
        ):
            return False
        for node in walk([function]):
            match node:
                case ast.Name(id="torch" | "np" | "numpy"):
                    return False
                case ast.Attribute(attr=name) if name in _TENSORS:
                    return False
                # The text itself is tested or handed on.
                case ast.Compare() if "padding" in (text := self.script.text(node)):
                    if "max_length" in text:
                        return False
        return True

    @property
    def may_be_cut(self) -> bool:
        """True if what it makes may be cut, split or dropped afterwards: by the function, or by
        what prepares the data set after it, seen or not."""
        return self._is_cut_by_hand or any(
            effect.kind in _SHORTENING
            for dataset in self.script.datasets
            for effect in dataset.effects_after(self.call)
        )

    @cached_property
    def _is_cut_by_hand(self) -> bool:
        """True if the function cuts what it tokenized, splits it or looks at its length."""
        for node in walk([self.function]) if self.function is not None else ():
            match node:
                case ast.Slice(upper=upper, lower=lower) if upper or lower:
                    return True
                case ast.keyword(arg="return_overflowing_tokens"):
                    return True
                # ``if len(ids) < limit:``
                case ast.Compare() if "len(" in self.script.text(node):
                    return True
        return False

    @cached_property
    def tokenizer_is_parameter(self) -> bool:
        """True if the tokenizer is a parameter of the function: its name means nothing outside."""
        func = self.call.node.func
        name = func.id if isinstance(func, ast.Name) else None
        nodes = walk([self.function]) if self.function is not None else []
        return any(isinstance(node, ast.arg) and node.arg == name for node in nodes)

    @cached_property
    def own_limit_is_useless(self) -> bool:
        """True if the tokenizer's own limit is known to be the model's whole context, or none."""
        receiver = self.call.receiver
        if not isinstance(receiver, Object) or receiver.made_by is None:
            return False
        load = self.script.call_at(receiver.made_by.node)
        if (
            load is None
            or load.has_unknown_keywords
            or load.setting("model_max_length").given is not False
        ):
            return False
        return self.script.model_facts(receiver).family.has("long_context")


def tokenizations_of(script: Script) -> tuple[Tokenization, ...]:
    """The places where the script calls a tokenizer, in source order."""
    return tuple(Tokenization(script, call) for call in script.calls if is_tokenizer_call(call))


# -- preparation of training sets ------------------------------------------------------------------


def _is_handed_over(script: Script, function: ast.Lambda) -> bool:
    """True if a lambda is mapped over a data set, or is a collator."""
    parent = script.parent(function)
    if isinstance(parent, ast.keyword):
        if parent.arg in _COLLATORS:
            return True
        parent = script.parent(parent)
    return isinstance(parent, ast.Call) and callee_of(parent) in _MAPS


def _is_collator(script: Script, function: _Definition) -> bool:
    """True if a function is given somewhere as a collator."""
    return any(
        one.arg in _COLLATORS and function.name in _last_names(one.value)
        for one in script.nodes(ast.keyword)
    )


def _collates_held_out(script: Script, function: _Definition) -> bool:
    """True if a collator makes the batches of data sets that are not trained on, and no others."""
    purposes = {
        dataset.purpose
        for dataset in script.datasets
        if any(
            one.operation == "collate" and one.function is function for one in dataset.preparations
        )
    }
    if Purpose.TRAINING in purposes:
        return False
    if purposes and purposes <= {Purpose.EVALUATION, Purpose.INFERENCE}:
        return True
    return is_held_out_name(function.name)


def _is_for_training(script: Script, mapped: ast.Call) -> bool:
    """True if mapped rows are trained on: by where they go, else by what the data set is called."""
    purpose = purpose_of(script, mapped)
    if purpose is not Purpose.UNKNOWN:
        return purpose is Purpose.TRAINING
    statement = script.statement(mapped)
    named = [mapped.func.value] if isinstance(mapped.func, ast.Attribute) else []
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return not may_be_held_out(script, *targets, *named)


def _mapped(script: Script, function: FunctionNode, depth: int = 2) -> Iterator[ast.Call]:
    """The calls that map a function over a data set."""
    own = getattr(function, "name", None)
    for node in script.nodes(ast.Call):
        arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
        if callee_of(node) in _MAPS and (
            function in arguments
            or (own is not None and any(own in _handed(one) for one in arguments))
        ):
            if not _is_only_shown(script, node) and not script.is_off_by_default(node):
                yield node
        elif depth and own is not None and callee_of(node) == own:
            around = script.function(node)
            if around is not None and around is not function:
                yield from _mapped(script, around, depth - 1)


def _is_only_shown(script: Script, mapped: ast.Call) -> bool:
    """True if the mapped data set gets a name that nothing but ``print`` and its like reads."""
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
    calls = [node for node in walk([statement]) if isinstance(node, ast.Call)]
    return all(callee_of(call) in _SHOWS for call in calls)


def _handed(argument: ast.expr) -> set[str]:
    """The functions that an argument hands over: ``tokenize``, ``self.tokenize``, in a lambda."""
    match argument:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return {name}
        case ast.Lambda(body=body):
            return {callee_of(node) for node in walk([body]) if isinstance(node, ast.Call)}
        case ast.Call(args=[first, *_]) if callee_of(argument) == "partial":
            return _handed(first)
    return set()


def _last_names(node: ast.expr) -> set[str]:
    return {
        one.attr if isinstance(one, ast.Attribute) else one.id
        for one in walk([node])
        if isinstance(one, ast.Name | ast.Attribute)
    }


# -- data sets of the script's own -----------------------------------------------------------------

_Definition = ast.FunctionDef | ast.AsyncFunctionDef


def _makes_items(script: Script, function: _Definition) -> bool:
    return _is_in_data_set(script, function) and (makes_labels(function) or _makes_pairs(function))


def _is_called_for_items(script: Script, function: _Definition) -> bool:
    """True if a data set's class with labels, of its own or the function's, calls it for them."""
    if is_held_out_name(function.name):
        return False
    homes = {
        script.function(call.node)
        for call in script.method_calls(function.name)
        if isinstance(call.node.func, ast.Name)
    }
    return any(
        home is not None
        and _is_in_data_set(script, home)
        and (makes_labels(function) or makes_labels(script.enclosing(home, ast.ClassDef)))
        for home in homes
    )


def _is_in_data_set(script: Script, function: _Definition) -> bool:
    """True if a function is a data set's constructor or makes its items."""
    owner = script.parent(function)
    return (
        isinstance(owner, ast.ClassDef)
        and function.name in ("__getitem__", "__init__")
        and any(script.text(base).endswith("Dataset") for base in owner.bases)
        and not is_held_out_name(owner.name)
    )


def _makes_pairs(function: FunctionNode) -> bool:
    """True if a function speaks of chosen and rejected answers: a reward model's examples."""
    text = ast.unparse(function)
    return "chosen" in text and "rejected" in text


# -- labels ----------------------------------------------------------------------------------------


def makes_labels(holder: ast.AST | None) -> bool:
    """True if a function, or a class, gives its examples ``labels``."""
    for node in walk([holder]) if holder is not None else ():
        if isinstance(node, ast.keyword) and node.arg == "labels":
            return True
        if isinstance(node, ast.Dict) and any(map(_is_labels, node.keys)):
            return True
        match node:
            case ast.Subscript(slice=key, ctx=ast.Store()) if _is_labels(key):
                return True
    return False


def _labels(node: ast.AST) -> Iterator[ast.expr]:
    """What a node gives as labels."""
    match node:
        case ast.Assign(targets=[ast.Subscript(slice=slice_)], value=value) if _is_labels(slice_):
            yield value
        case ast.Dict(keys=keys, values=values):
            yield from (v for k, v in zip(keys, values, strict=True) if _is_labels(k))


def _is_labels(key: ast.expr | None) -> bool:
    return isinstance(key, ast.Constant) and key.value == "labels"


def _is_copy_of_inputs(value: ast.expr) -> bool:
    match value:
        case ast.Call(func=ast.Attribute(value=inner, attr="copy"), args=[]):
            return _is_copy_of_inputs(inner)
        case ast.Call(func=ast.Name(id="list") | ast.Attribute(attr="deepcopy"), args=[inner]):
            return _is_copy_of_inputs(inner)
        case ast.Subscript(slice=ast.Constant(value="input_ids")) | ast.Attribute(attr="input_ids"):
            return True
        case _:
            return False


def may_truncate(script: Script) -> bool:
    """True if a tokenizer's call here may truncate, or none is in sight."""
    calls = [one.call for one in script.tokenizations if one.call.method != "pad"]
    return not calls or any(
        call.has_unknown_keywords or call.setting("truncation").given is not False for call in calls
    )
