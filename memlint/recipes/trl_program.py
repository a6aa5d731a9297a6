"""A recipe of TRL as the program that it configures.

TRL's command line and the alignment-handbook fill TRL's own classes from a recipe. As the syntax
tree of a script that does so, the recipe meets the same rules as a script: same settings, same
tables, same fixes. The nodes are places of the recipe, so that findings and edits are, too.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from memlint.engine.project import put
from memlint.recipes.document import (
    Entry,
    MappingNode,
    Node,
    Scalar,
    SequenceNode,
    merged,
    resolved,
)
from memlint.recipes.kinds import Kind, Reader
from memlint.recipes.methods import Method
from memlint.recipes.recipe import Recipe, is_interpolated
from memlint.source import Place, Span
from memlint.source.record import Record

if TYPE_CHECKING:
    from memlint.api import Api

_PROGRAM = Reader(Kind.TRL, "")
MODEL_CONFIG = "trl.ModelConfig"
_ADAPTER = {
    "r": "lora_r", "lora_alpha": "lora_alpha", "lora_dropout": "lora_dropout",
    "target_modules": "lora_target_modules", "modules_to_save": "lora_modules_to_save",
    "use_rslora": "use_rslora", "use_dora": "use_dora",
}  # fmt: skip
_QUANTIZATION = {
    "load_in_8bit": "load_in_8bit", "load_in_4bit": "load_in_4bit",
    "bnb_4bit_quant_type": "bnb_4bit_quant_type",
    "bnb_4bit_use_double_quant": "use_bnb_nested_quant",
}  # fmt: skip
_DTYPES = ("dtype", "torch_dtype")
_WIDTHS = ("bfloat16", "float16", "float32")
# Of what stands nowhere in the recipe.
_NOWHERE = Span(0, 0)

Expression = TypeVar("Expression", bound=ast.AST)


class Written(Record):
    """What of a recipe, or of a command, a node stands for.

    mapping: the one whose ``key`` is the value; with ``names`` the node is a call or a dict, whose
    keywords are these keys of ``mapping`` (all of its own keys where ``open_names``).
    """

    mapping: Span
    key: str = ""
    names: Mapping[str, str] | None = None
    open_names: bool = False

    def key_of(self, name: str) -> str | None:
        """Return the key that a keyword of the call is in the recipe; None where it is none."""
        if self.names is None:
            return None
        return self.names.get(name) or (name if self.open_names else None)


def program_of(
    recipe: Recipe,
    method: Method,
    api: Api,
    options: Mapping[str, object] = {},
    *,
    entries: Sequence[Entry] = (),
    unknown: frozenset[str] = frozenset(),
    reader: Reader | None = None,
    by_trl: bool = False,
    own_code: bool = False,
) -> ast.Module:
    """Return the script that trains by the settings of a recipe with ``method``.

    options: those of the configuration that files around the recipe decide. entries: settings that
    its commands give beside it. unknown: keys whose value is not the recipe's. reader: what reads
    it; None: the program, with classes of its own. by_trl: TRL's own program reads it, so that the
    model is loaded by the defaults of TRL. own_code: the model may be of a class that is not
    transformers'.
    """
    reader = reader or _PROGRAM
    program = _Program(recipe, method, api, entries, unknown, reader, by_trl, own_code)
    return program.module(options)


class _Program:
    def __init__(
        self,
        recipe: Recipe,
        method: Method,
        api: Api,
        entries: Sequence[Entry],
        unknown: frozenset[str],
        reader: Reader,
        by_trl: bool,
        own_code: bool,
    ) -> None:
        self._root = recipe.document.root
        self._reader = reader
        self._complete = recipe.is_complete and not reader.computes
        self._unknown = unknown
        self._own_code = own_code
        self._method = method
        self._api = api
        self._default_dtype = self._dtype_of_program() if by_trl else {}
        self._places: dict[ast.AST, Span] = {}
        # A command's settings go over its recipe's, and those over what is given beside it.
        base = recipe.base.document.root.entries if recipe.base is not None else ()
        top = {**_by_name(entries), **_by_name(base), **merged(self._root)}
        self._top = {k: v for k, v in top.items() if isinstance(k, str) and k not in reader.own}
        self._elsewhere: dict[object, Span] = {
            **dict.fromkeys(_by_name(entries), _NOWHERE),
            **{key: self._at_command(str(key)) for key in _by_name(base)},
        }
        for key in merged(self._root):
            self._elsewhere.pop(key, None)

    def module(self, options: Mapping[str, object]) -> ast.Module:
        config, trainer = self._method.config, self._method.trainer
        model = self._method.model
        body: list[ast.stmt] = [ast.Import([ast.alias("torch")])]
        imported = (f"transformers.{model}", "transformers.BitsAndBytesConfig", "peft.LoraConfig")
        for name in (*imported, MODEL_CONFIG, config, trainer):
            package, _, cls = name.rpartition(".")
            body.append(ast.ImportFrom(package, [ast.alias(cls)], 0))
        loads = self._reader.has_class("ModelConfig")
        of_model = self._keys_of_model(config) if loads else {}
        keys = {key: key for key in self._keys_of(config) if key not in of_model}
        if loads:
            body.append(_assign("model_args", self._call(MODEL_CONFIG, of_model, open_names=True)))
        decided = {name: _name("value_of_the_project") for name in sorted(self._decided(config))}
        given = {**decided, **{name: _literal(value) for name, value in options.items()}}
        made = self._call(config, keys, given, open_names=True)
        body.append(_assign("args", made))
        body.append(_assign("model", self._load(model) if loads else _name("model_of_the_program")))
        body.append(_assign("trainer", self._trainer(trainer)))
        train = ast.Attribute(_name("trainer"), "train", ast.Load())
        body.append(ast.Expr(ast.Call(train, [], [])))
        module = ast.Module(body, [])
        for order, (node, place) in enumerate(self._in_order(module, _NOWHERE), start=1):
            put(node, place, order)
        return module

    def _in_order(self, node: ast.AST, around: Span) -> Iterator[tuple[ast.AST, Span]]:
        """Yield the nodes with their places; a piece of what is written is where that is."""
        place = self._places.get(node, around)
        if "lineno" in node._attributes:
            yield node, place
        inner = Place(place) if isinstance(place, Place) else place
        for child in ast.iter_child_nodes(node):
            yield from self._in_order(child, inner)

    def _decided(self, config: str) -> set[str]:
        """Options of the configuration that a class of the project defines anew, or a command
        that the recipe does not follow."""
        elsewhere = self._reader.own | (self._unknown - self._top.keys())
        return {key for key in elsewhere if self._api.accepts(config, key)}

    def _dtype_of_program(self) -> dict[str, str]:
        """What TRL's program takes where no dtype is given, by the key that says so."""
        signature = self._api.signature(MODEL_CONFIG)
        parameters = signature.parameters if signature is not None else {}
        key = next((name for name in _DTYPES if name in parameters), "")
        default = parameters[key].default if key else None
        is_decided = default in _WIDTHS and not self._unknown.intersection(_DTYPES)
        return {key: str(default)} if is_decided else {}

    # -- calls -----------------------------------------------------------------------------------

    def _keys_of(self, qualname: str) -> dict[str, str]:
        """The recipe's keys that are, or were in some release, options of a class."""
        return {
            key: key
            for key in self._top
            if key.isidentifier() and self._api.history(qualname, key) is not None
        }

    def _keys_of_model(self, config: str) -> dict[str, str]:
        """The keys of the model's class: those that it alone had, or alone has at the target."""
        api, others = self._api, self._keys_of(config)
        return {
            key: key
            for key in self._keys_of(MODEL_CONFIG)
            if key not in others
            or (api.accepts(MODEL_CONFIG, key) and not api.accepts(config, key))
        }

    def _call(
        self,
        qualname: str,
        names: Mapping[str, str],
        options: Mapping[str, ast.expr] = {},
        *,
        open_names: bool = False,
    ) -> ast.Call:
        """``name(key=value, ...)``. names: keyword -> key of the recipe. options: more keywords,
        which go before those of the recipe."""
        keywords = []
        for name, key in names.items():
            if key in self._top and name not in options:
                keyword = ast.keyword(name, self._value(key))
                self._places[keyword] = self._place_of(key)
                keywords.append(keyword)
        keywords += [ast.keyword(name, value) for name, value in options.items()]
        if not self._complete and open_names:
            keywords.append(ast.keyword(None, _name("other_options")))
        call = ast.Call(_name(qualname.rpartition(".")[2]), [], keywords)
        return self._at(call, self._first_key(), names, open_names)

    def _load(self, model: str) -> ast.Call:
        path = "model_name_or_path"
        names = {}
        keywords = []
        if "attn_implementation" in self._top:
            names["attn_implementation"] = "attn_implementation"
            keywords.append(ast.keyword("attn_implementation", self._value("attn_implementation")))
        given = next((name for name in _DTYPES if name in self._top), None)
        option = "dtype" if self._api.version("transformers").minor >= (4, 56) else "torch_dtype"
        by = given or next(iter(self._default_dtype), "")
        names |= {option: by} if by else {}
        keywords.append(ast.keyword(option, self._dtype(given)))
        remote = "trust_remote_code"
        if self._own_code:
            keywords.append(ast.keyword(remote, _name("code_of_the_project")))
        elif remote in self._top:
            names[remote] = remote
            keywords.append(ast.keyword(remote, self._value(remote)))
        if self._is_on("load_in_4bit") or self._is_on("load_in_8bit"):
            keywords.append(ast.keyword("quantization_config", self._quantization(given)))
        if not self._complete:
            keywords.append(ast.keyword(None, _name("model_options")))
        checkpoint = self._value(path) if path in self._top else _name(path)
        load = ast.Attribute(_name(model), "from_pretrained", ast.Load())
        return self._at(ast.Call(load, [checkpoint], keywords), self._key_span(path), names)

    def _quantization(self, dtype: str | None) -> ast.Call:
        names = {name: key for name, key in _QUANTIZATION.items() if key in self._top}
        keywords = [ast.keyword(name, self._value(key)) for name, key in names.items()]
        keywords.append(ast.keyword("bnb_4bit_compute_dtype", self._dtype(dtype)))
        key = "load_in_4bit" if "load_in_4bit" in self._top else "load_in_8bit"
        call = ast.Call(_name("BitsAndBytesConfig"), [], keywords)
        return self._at(call, self._key_span(key), names)

    def _trainer(self, qualname: str) -> ast.Call:
        given = ["model", "args", "train_dataset"]
        given += ["eval_dataset"] if self._evaluates() else []
        keywords = [ast.keyword(name, _name(name)) for name in (*given, *self._method.arguments)]
        if self._is_on("use_peft") and self._reader.has_class("ModelConfig"):
            keywords.append(ast.keyword("peft_config", self._call("peft.LoraConfig", _ADAPTER)))
        call = ast.Call(_name(qualname.rpartition(".")[2]), [], keywords)
        return self._at(call, self._first_key(), {})

    def _evaluates(self) -> bool:
        for key in ("eval_strategy", "evaluation_strategy"):
            node = self._top.get(key)
            if node is not None:
                return getattr(resolved(node), "value", None) not in ("no", False, None)
        return False

    def _is_on(self, key: str) -> bool:
        node = self._top.get(key)
        return node is not None and getattr(resolved(node), "value", None) is True

    # -- values ----------------------------------------------------------------------------------

    def _value(self, key: str) -> ast.expr:
        if key in self._unknown:
            return _name("value_of_the_command")
        return self._node(self._top[key], key, self._root.span, self._elsewhere.get(key))

    def _dtype(self, key: str | None) -> ast.expr:
        if key is None:
            return _dtype(next(iter(self._default_dtype.values()), None))
        node = resolved(self._top[key])
        value = getattr(node, "value", None)
        made: ast.expr = _dtype(value if value in _WIDTHS else None)
        if key in self._unknown or getattr(node, "tagged", False):
            made = _name("dtype_of_the_command")
        elif value in (None, "auto"):
            made = ast.Constant(value)
        return self._written(made, node, key, self._root.span, self._elsewhere.get(key))

    def _node(self, given: Node, key: str, mapping: Span, elsewhere: Span | None) -> ast.expr:
        node = resolved(given)
        made: ast.expr
        match node:
            case SequenceNode(items=items):
                inner = [self._node(item, "", node.span, elsewhere) for item in items]
                made = ast.List(inner, ast.Load())
            case MappingNode():
                pairs = merged(node)
                values = [self._node(v, str(k), node.span, elsewhere) for k, v in pairs.items()]
                made = ast.Dict([_scalar(name) for name in pairs], values)
                if elsewhere is None:
                    names = {str(name): str(name) for name in pairs}
                    return self._at(made, node.span, names, True, node.span)
            case Scalar(tagged=True):
                made = _name("value_of_a_tag")
            case Scalar(value=str(text)) if is_interpolated(text):
                made = _name("value_of_a_variable")
            case Scalar(value=value):
                made = _scalar(value)
        return self._written(made, given, key, mapping, elsewhere)

    # -- places ----------------------------------------------------------------------------------

    def _written(
        self, made: ast.expr, node: Node, key: str, mapping: Span, elsewhere: Span | None
    ) -> ast.expr:
        """Return the value of a key; only one that stands in the recipe can be changed there."""
        self._places[made] = elsewhere or Place(node.span, Written(mapping, key))
        return made

    def _at(
        self,
        node: Expression,
        place: Span,
        names: Mapping[str, str] | None = None,
        open_names: bool = False,
        mapping: Span | None = None,
    ) -> Expression:
        """Return a node that is written at a place: a keyword, or a call or dict of ``names``."""
        written = Written(mapping or self._root.span, names=names, open_names=open_names)
        self._places[node] = Place(place, written)
        return node

    def _first_key(self) -> Span:
        """Where a finding of the whole is shown: the first key, or the command."""
        first = self._root.entries[0].key.span
        return first if self._root.span.start == first.start else self._root.span

    def _key_span(self, key: str) -> Span:
        entry = self._root.entry(key)
        return entry.key.span if entry is not None else self._place_of(key)

    def _place_of(self, key: str) -> Span:
        """A key with its value; the key alone where a block follows."""
        entry = self._root.entry(key)
        if entry is None:
            return self._elsewhere.get(key) or Place(self._first_key())
        whole = getattr(entry.value, "flow", True) and not getattr(entry.value, "block", False)
        end = max(entry.key.span.end, entry.value.span.end if whole else 0)
        return Place(Span(entry.key.span.start, end))

    def _at_command(self, key: str) -> Place:
        """Where it is said what a command makes of a key of its recipe."""
        return Place(self._root.span, Written(self._root.span, key))


def _by_name(entries: Sequence[Entry]) -> dict[object, Node]:
    return {entry.key.value: entry.value for entry in entries}


def _name(name: str) -> ast.Name:
    """A variable; of no value that is known, where nothing binds it."""
    return ast.Name(name, ast.Load())


def _assign(name: str, value: ast.expr) -> ast.Assign:
    return ast.Assign([ast.Name(name, ast.Store())], value)


def _dtype(name: object) -> ast.expr:
    """A dtype of torch; that which the program chooses without a name."""
    if name is None:
        return _name("dtype_of_the_program")
    return ast.Attribute(_name("torch"), str(name), ast.Load())


def _scalar(value: object) -> ast.expr:
    """A YAML value as Python's."""
    if isinstance(value, float) and (value != value or value in (float("inf"), -float("inf"))):
        return ast.Call(_name("float"), [ast.Constant(str(value))], [])
    if value is None or isinstance(value, bool | int | float | str):
        return ast.Constant(value)
    return _name("value_of_a_tag")


def _literal(value: object) -> ast.expr:
    """Plain data as Python's."""
    if isinstance(value, Mapping):
        values = [_literal(inner) for inner in value.values()]
        return ast.Dict([ast.Constant(name) for name in value], values)
    return _scalar(value)
