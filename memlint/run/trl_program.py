"""A recipe of TRL as the program that it configures.

TRL's command line and the alignment-handbook fill TRL's own classes from a recipe. As the syntax
tree of a script that does so, the recipe meets the same rules as a script: same settings, same
tables, same fixes. The nodes are places of the recipe, so that findings and edits are, too.
"""

from collections.abc import Mapping, Sequence

from memlint.api.lookup import Api
from memlint.engine.nodes import CallNode, Expression, Module
from memlint.engine.written_program import NOWHERE, Argument, WrittenProgram
from memlint.recipes.document import (
    Entry,
    MappingNode,
    Node,
    Scalar,
    SequenceNode,
    merged,
    resolved,
)
from memlint.recipes.kinds import Method, Reader
from memlint.recipes.recipe import Recipe, is_interpolated
from memlint.run.runs import Around
from memlint.script.parsers import ADAPTER, DEFAULTS, QUANTIZATION
from memlint.source import Place, Span
from memlint.source.record import Record

MODEL_CONFIG = "trl.ModelConfig"
_TYPE = "bnb_4bit_quant_type"
# What stands for options that are not known.
_REST = "other_options"
_DTYPES = ("dtype", "torch_dtype")
_WIDTHS = ("bfloat16", "float16", "float32")


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


class RecipeProgram:
    """The script that trains by the settings of a recipe with ``method``. reader: what reads it."""

    def __init__(
        self, recipe: Recipe, method: Method, api: Api, around: Around, reader: Reader
    ) -> None:
        self._root = root = recipe.document.root
        self._reader = reader
        self._complete = recipe.is_complete and not reader.computes
        added = _by_name(around.entries)
        # Keys whose value is not the recipe's.
        self._unknown = around.overridden - (added.keys() - set(recipe.keys))
        self._around = around
        self._method = method
        self._api = api
        # By TRL's own program the model is loaded by the defaults of TRL.
        self._default_dtype = self._dtype_of_program() if around.by_trl else {}
        self._program = WrittenProgram()
        # A command's settings go over its recipe's, and those over what is given beside it.
        base = recipe.base.document.root.entries if recipe.base is not None else ()
        own, below = merged(root), _by_name(base)
        top = {**added, **below, **own}
        self._top = {k: v for k, v in top.items() if isinstance(k, str) and k not in reader.own}
        # Of keys in other files: what a command makes of its recipe is said at the command.
        self._elsewhere: dict[object, Span] = {
            **dict.fromkeys(added, NOWHERE),
            **{key: Place(root.span, Written(root.span, str(key))) for key in below},
        }
        for key in own:
            self._elsewhere.pop(key, None)

    def module(self) -> Module:
        """Return the script's syntax tree."""
        config, trainer = self._method.config, self._method.trainer
        model = self._method.model
        program = self._program
        imported = (f"transformers.{model}", "transformers.BitsAndBytesConfig", "peft.LoraConfig")
        program.imports("torch", *imported, MODEL_CONFIG, config, trainer)
        loads = self._reader.has_class("ModelConfig")
        known = self._keys_of(config)
        of_model = self._keys_of_model(config, known) if loads else {}
        if loads:
            program.assigns("model_args", self._call("ModelConfig", of_model, rest=_REST))
        decided = dict.fromkeys(sorted(self._decided(config)), "value_of_the_project")
        given = {
            **{name: program.name(value) for name, value in decided.items()},
            **{name: program.value(value) for name, value in self._around.options.items()},
        }
        keys = {key: key for key in known if key not in of_model}
        program.assigns("args", self._call(_last(config), keys, given, rest=_REST))
        program.assigns(
            "model", self._load(model) if loads else program.name("model_of_the_program")
        )
        program.assigns("trainer", self._trainer(trainer))
        program.does(program.call("trainer.train"))
        return program.module()

    def _decided(self, config: str) -> set[str]:
        """Options that a class of the project defines anew, or a command that is not followed."""
        own = {key for key in self._reader.own if not self._api.warns(config, key)}
        elsewhere = own | (self._unknown - self._top.keys())
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

    def _keys_of_model(self, config: str, others: Mapping[str, str]) -> dict[str, str]:
        """The keys of the model's class: those that it alone had, or alone has at the target.
        others: the keys that the configuration has or had."""
        api = self._api
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
        options: Mapping[str, Expression] = {},
        *,
        rest: str = "",
        at: str = "",
        arguments: Sequence[Expression] = (),
    ) -> CallNode:
        """``name(key=value, ...)``. names: keyword -> key of the recipe. options: more keywords,
        which go before those of the recipe. rest: what stands for more where the recipe is not
        complete. at: the key where the call is shown; else it is the whole, and each keyword stands
        where its key does."""
        keywords: list[Argument] = [
            (name, self._value(key), None if at else self._place_of(key))
            for name, key in names.items()
            if key in self._top and name not in options
        ]
        keywords += [(name, value, None) for name, value in options.items()]
        if rest and not self._complete:
            keywords.append((None, self._program.name(rest), None))
        written = Written(self._root.span, names=names, open_names=rest == _REST)
        place = Place(self._key_span(at) if at else self._first_key(), written)
        return self._program.call(qualname, arguments, keywords, place)

    def _load(self, model: str) -> CallNode:
        path, program = "model_name_or_path", self._program
        given = next((name for name in _DTYPES if name in self._top), None)
        option = "dtype" if self._api.version("transformers").minor >= (4, 56) else "torch_dtype"
        by = given or next(iter(self._default_dtype), "")
        alike = ("attn_implementation", *(() if self._around.own_code else ("trust_remote_code",)))
        names = {name: name for name in alike if name in self._top} | ({option: by} if by else {})
        more = {option: self._dtype(given)}
        if self._around.own_code:
            more["trust_remote_code"] = program.name("code_of_the_project")
        if self._is_on("load_in_4bit", "load_in_8bit"):
            more["quantization_config"] = self._quantization(given)
        checkpoint = self._value(path) if path in self._top else program.name(path)
        load = f"{model}.from_pretrained"
        return self._call(load, names, more, rest="model_options", at=path, arguments=[checkpoint])

    def _quantization(self, dtype: str | None) -> CallNode:
        names = {name: key for name, key in QUANTIZATION.items() if key in self._top}
        more = {"bnb_4bit_compute_dtype": self._dtype(dtype)}
        if _TYPE not in names:
            more[_TYPE] = self._program.value("nf4")  # the default of TRL's own option
        key = "load_in_4bit" if "load_in_4bit" in self._top else "load_in_8bit"
        return self._call("BitsAndBytesConfig", names, more, at=key)

    def _trainer(self, qualname: str) -> CallNode:
        given = ["model", "args", "train_dataset", *self._method.arguments]
        given += ["eval_dataset"] if self._evaluates() else []
        options: dict[str, Expression] = {name: self._program.name(name) for name in given}
        if self._is_on("use_peft") and self._reader.has_class("ModelConfig"):
            rank = {} if "lora_r" in self._top else {"r": self._program.value(DEFAULTS["lora_r"])}
            options["peft_config"] = self._call("LoraConfig", ADAPTER, rank)
        return self._call(_last(qualname), {}, options)

    def _evaluates(self) -> bool:
        for key in ("eval_strategy", "evaluation_strategy"):
            node = self._top.get(key)
            if node is not None:
                return getattr(resolved(node), "value", None) not in ("no", False, None)
        return False

    def _is_on(self, *keys: str) -> bool:
        nodes = [self._top[key] for key in keys if key in self._top]
        return any(getattr(resolved(node), "value", None) is True for node in nodes)

    # -- values ----------------------------------------------------------------------------------

    def _value(self, key: str) -> Expression:
        if key in self._unknown:
            return self._program.name("value_of_the_command")
        return self._node(self._top[key], key, self._root.span, self._elsewhere.get(key))

    def _dtype(self, key: str | None) -> Expression:
        program = self._program
        if key is None:
            default = next(iter(self._default_dtype.values()), "")
            return program.name(f"torch.{default}" if default else "dtype_of_the_program")
        node = resolved(self._top[key])
        value = getattr(node, "value", None)
        if key in self._unknown or getattr(node, "tagged", False):
            made = program.name("dtype_of_the_command")
        elif value in (None, "auto"):
            made = program.value(value)
        else:
            made = program.name(f"torch.{value}" if value in _WIDTHS else "dtype_of_the_program")
        place = Place(node.span, Written(self._root.span, key))
        return program.placed(made, self._elsewhere.get(key, place))

    def _node(self, given: Node, key: str, mapping: Span, elsewhere: Span | None) -> Expression:
        """A value of the recipe; only what stands in it can be changed there."""
        node, program = resolved(given), self._program
        place = elsewhere or Place(given.span, Written(mapping, key))
        match node:
            case SequenceNode(items=items):
                return program.sequence(
                    [self._node(item, "", node.span, elsewhere) for item in items], place
                )
            case MappingNode():
                pairs = merged(node).items()
                names = {str(name): str(name) for name, _ in pairs}
                held = Place(node.span, Written(node.span, names=names, open_names=True))
                values = [(k, self._node(v, str(k), node.span, elsewhere)) for k, v in pairs]
                return program.mapping(values, elsewhere or held)
            case Scalar(tagged=True):
                made = program.name("value_of_a_tag")
            case Scalar(value=str(text)) if is_interpolated(text):
                made = program.name("value_of_a_variable")
            case Scalar(value=value):
                made = program.value(value)
        return program.placed(made, place)

    # -- places ----------------------------------------------------------------------------------

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


def _last(qualname: str) -> str:
    return qualname.rpartition(".")[2]


def _by_name(entries: Sequence[Entry]) -> dict[object, Node]:
    return {entry.key.value: entry.value for entry in entries}
