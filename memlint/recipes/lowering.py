"""A recipe of TRL as the script that its program runs.

TRL's command line and the alignment-handbook fill TRL's own classes from a recipe. Written out as
Python, the recipe meets the same rules as a script: same settings, same tables, same fixes. Every
piece of the script knows the place of the recipe that it came from, so that findings and edits go
back there (``memlint.run.recipes``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from memlint.recipes.document import (
    MappingNode,
    Node,
    Scalar,
    SequenceNode,
    merged,
    resolved,
)
from memlint.recipes.kinds import Kind, Reader
from memlint.recipes.methods import Method
from memlint.recipes.recipe import is_interpolated
from memlint.source import Span
from memlint.source.record import Record

if TYPE_CHECKING:
    from memlint.api import Api

_PROGRAM = Reader(Kind.TRL, "")
MODEL_CONFIG = "trl.ModelConfig"
_ADAPTER = {
    "lora_r": "r", "lora_alpha": "lora_alpha", "lora_dropout": "lora_dropout",
    "lora_target_modules": "target_modules", "lora_modules_to_save": "modules_to_save",
    "use_rslora": "use_rslora", "use_dora": "use_dora",
}  # fmt: skip
_QUANTIZATION = {
    "load_in_8bit": "load_in_8bit", "load_in_4bit": "load_in_4bit",
    "bnb_4bit_quant_type": "bnb_4bit_quant_type",
    "use_bnb_nested_quant": "bnb_4bit_use_double_quant",
}  # fmt: skip
_DTYPES = ("dtype", "torch_dtype")
_WIDTHS = ("bfloat16", "float16", "float32")


class Region(Record):
    """A piece of the script and where it came from.

    span: bytes of the script. place: bytes of the recipe. mapping: the recipe's mapping whose
    ``key`` is the value; with ``names`` the piece is a call or a dict, whose keywords are these
    keys of ``mapping`` (all of its own keys where ``open_names``).
    """

    span: Span
    place: Span
    mapping: Span
    key: str = ""
    names: Mapping[str, str] | None = None
    open_names: bool = False


class Lowered(Record):
    """The script, and its pieces in the order in which they were finished."""

    text: str
    regions: tuple[Region, ...]


def lower(
    root: MappingNode,
    method: Method,
    api: Api,
    extra: Mapping[str, str],
    *,
    complete: bool = True,
    unknown: frozenset[str] = frozenset(),
    by_trl: bool = False,
    reader: Reader | None = None,
    own_code: bool = False,
) -> Lowered:
    """The script that trains by the settings in ``root`` with ``method``.

    extra: keywords of the configuration, as Python, that files around the recipe decide.
    complete: there are no more settings. unknown: keys whose value is not the recipe's.
    reader: what reads it; None: the program, with classes of its own. by_trl: TRL's own program
    reads it, so that the model is loaded by the defaults of TRL. own_code: the model may be of a
    class that is not transformers'.
    """
    lowering = _Lowering(root, method, api, complete, unknown, reader or _PROGRAM, by_trl, own_code)
    return lowering.script(extra)


class _Lowering:
    def __init__(
        self,
        root: MappingNode,
        method: Method,
        api: Api,
        complete: bool,
        unknown: frozenset[str],
        reader: Reader,
        by_trl: bool,
        own_code: bool,
    ) -> None:
        self._root = root
        top = {k: v for k, v in merged(root).items() if isinstance(k, str)}
        self._top = {key: value for key, value in top.items() if key not in reader.own}
        self._reader = reader
        self._complete = complete and not reader.computes
        self._unknown = unknown
        self._by_trl = by_trl
        self._own_code = own_code
        self._method = method
        self._api = api
        self._parts: list[str] = []
        self._size = 0
        self._regions: list[Region] = []

    def script(self, extra: Mapping[str, str]) -> Lowered:
        config, trainer = self._method.config, self._method.trainer
        model = self._method.model
        self._write("import torch\n")
        self._write(f"from transformers import {model}, BitsAndBytesConfig\n")
        self._write("from peft import LoraConfig\n")
        self._write("from trl import ModelConfig\n")
        for name in (config, trainer):
            module, _, cls = name.rpartition(".")
            self._write(f"from {module} import {cls}\n")
        loads = self._reader.has_class("ModelConfig")
        if loads:
            self._write("\nmodel_args = ")
            self._call("ModelConfig", self._keys_of_model(config), {}, open_names=True)
        self._write("\nargs = ")
        decided = dict.fromkeys(sorted(self._decided(config)), "value_of_the_project")
        settings = {**decided, **extra}
        keys = self._keys_of(config)
        if loads:
            keys = [key for key in keys if key not in self._keys_of_model(config)]
        self._call(config.rpartition(".")[2], keys, settings, open_names=True)
        self._write("\nmodel = ")
        if loads:
            self._load(model)
        else:
            self._write("model_of_the_program")
        self._write("\ntrainer = ")
        self._trainer(trainer.rpartition(".")[2])
        self._write("\ntrainer.train()\n")
        return Lowered("".join(self._parts), tuple(self._regions))

    def _decided(self, config: str) -> set[str]:
        """Options of the configuration that a class of the project defines anew, or a command
        that the recipe does not follow."""
        elsewhere = self._reader.own | (self._unknown - self._top.keys())
        return {key for key in elsewhere if self._api.accepts(config, key)}

    # -- calls -----------------------------------------------------------------------------------

    def _keys_of(self, qualname: str) -> list[str]:
        """The recipe's keys that are, or were in some release, options of a class."""
        return [
            key
            for key in self._top
            if key.isidentifier() and self._api.history(qualname, key) is not None
        ]

    def _keys_of_model(self, config: str) -> list[str]:
        """The keys of the model's class: those that it alone had, or alone has at the target."""
        api, others = self._api, self._keys_of(config)
        return [
            key
            for key in self._keys_of(MODEL_CONFIG)
            if key not in others
            or (api.accepts(MODEL_CONFIG, key) and not api.accepts(config, key))
        ]

    def _call(
        self,
        name: str,
        keys: list[str],
        extra: Mapping[str, str],
        *,
        names: Mapping[str, str] | None = None,
        open_names: bool = False,
    ) -> None:
        """``name(key=value, ...)``. names: keyword -> key of the recipe, where they differ."""
        start = self._size
        self._write(f"{name}(\n")
        keywords = names or {key: key for key in keys}
        for keyword, key in keywords.items():
            if key in self._top and keyword not in extra:
                self._write("    ")
                keyword_start = self._size
                self._write(f"{keyword}=")
                self._value(key)
                keyword_span = self._since(keyword_start)
                self._regions.append(Region(keyword_span, self._entry_span(key), self._root.span))
                self._write(",\n")
        for keyword, text in extra.items():
            self._write(f"    {keyword}={text},\n")
        if not self._complete and open_names:
            self._write("    **other_options,\n")
        self._write(")")
        self._region(start, self._first_key(), keywords, open_names)

    def _load(self, model: str) -> None:
        start = self._size
        self._write(f"{model}.from_pretrained(\n    ")
        if "model_name_or_path" in self._top:
            self._value("model_name_or_path")
        else:
            self._write("model_name_or_path")
        self._write(",\n")
        names = {}
        if "attn_implementation" in self._top:
            names["attn_implementation"] = "attn_implementation"
            self._write("    attn_implementation=")
            self._value("attn_implementation")
            self._write(",\n")
        given = next((name for name in _DTYPES if name in self._top), None)
        option = "dtype" if self._api.version("transformers").minor >= (4, 56) else "torch_dtype"
        self._write(f"    {option}=")
        if given is None:
            names.update(self._default_dtype(option))
        else:
            names[option] = given
            self._dtype(given)
        self._write(",\n")
        if self._own_code:
            self._write("    trust_remote_code=code_of_the_project,\n")
        elif "trust_remote_code" in self._top:
            names["trust_remote_code"] = "trust_remote_code"
            self._write("    trust_remote_code=")
            self._value("trust_remote_code")
            self._write(",\n")
        if self._is_on("load_in_4bit") or self._is_on("load_in_8bit"):
            self._write("    quantization_config=")
            self._quantization(given)
            self._write(",\n")
        self._write(")" if self._complete else "    **model_options,\n)")
        self._region(start, self._key_span("model_name_or_path"), names)

    def _quantization(self, dtype: str | None) -> None:
        names = {keyword: key for key, keyword in _QUANTIZATION.items() if key in self._top}
        start = self._size
        self._write("BitsAndBytesConfig(")
        for keyword, key in names.items():
            self._write(f"{keyword}=")
            self._value(key)
            self._write(", ")
        self._write("bnb_4bit_compute_dtype=")
        if dtype is None:
            self._default_dtype("")
        else:
            self._dtype(dtype)
        self._write(")")
        key = "load_in_4bit" if "load_in_4bit" in self._top else "load_in_8bit"
        self._region(start, self._key_span(key), names)

    def _trainer(self, trainer: str) -> None:
        start = self._size
        self._write(f"{trainer}(\n    model=model,\n    args=args,\n")
        self._write("    train_dataset=train_dataset,\n")
        if self._evaluates():
            self._write("    eval_dataset=eval_dataset,\n")
        for line in self._method.arguments:
            self._write(f"    {line},\n")
        if self._is_on("use_peft") and self._reader.has_class("ModelConfig"):
            self._write("    peft_config=")
            keywords = {word: key for key, word in _ADAPTER.items()}
            self._call("LoraConfig", [], {}, names=keywords)
            self._write(",\n")
        self._write(")")
        self._region(start, self._first_key(), {})

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

    def _value(self, key: str) -> None:
        self._node(self._top[key], key, self._root.span)

    def _dtype(self, key: str) -> None:
        start = self._size
        node = resolved(self._top[key])
        value = getattr(node, "value", None)
        if key in self._unknown or getattr(node, "tagged", False):
            self._write("dtype_of_the_command")
        elif value in _WIDTHS:
            self._write(f"torch.{value}")
        else:
            self._write(repr(value) if value in (None, "auto") else "dtype_of_the_program")
        self._regions.append(Region(self._since(start), node.span, self._root.span, key))

    def _default_dtype(self, option: str) -> dict[str, str]:
        """Write what TRL's program takes where no dtype is given; ``option`` as the key to set."""
        signature = self._api.signature(MODEL_CONFIG)
        parameters = signature.parameters if signature is not None else {}
        key = next((name for name in _DTYPES if name in parameters), "")
        default = parameters[key].default if key else None
        if not self._by_trl or self._unknown.intersection(_DTYPES) or default not in _WIDTHS:
            self._write("dtype_of_the_program")
            return {}
        self._write(f"torch.{default}")
        return {option: key}

    def _node(self, given: Node, key: str, mapping: Span) -> None:
        start = self._size
        node = resolved(given)
        if key in self._unknown and mapping == self._root.span:
            self._write("value_of_the_command")
            return
        match node:
            case Scalar(tagged=True):
                self._write("value_of_a_tag")
            case Scalar(value=str(text)) if is_interpolated(text):
                self._write("value_of_a_variable")
            case Scalar(value=value):
                self._write(_literal(value))
            case SequenceNode(items=items):
                self._write("[")
                for item in items:
                    self._node(item, "", node.span)
                    self._write(", ")
                self._write("]")
            case MappingNode():
                self._write("{")
                for name, value in merged(node).items():
                    self._write(f"{name!r}: ")
                    self._node(value, str(name), node.span)
                    self._write(", ")
                self._write("}")
                self._region_of(node, start)
        self._regions.append(Region(self._since(start), given.span, mapping, key))

    def _region_of(self, node: MappingNode, start: int) -> None:
        names = {str(key): str(key) for key in merged(node)}
        self._regions.append(
            Region(self._since(start), node.span, node.span, names=names, open_names=True)
        )

    # -- places ----------------------------------------------------------------------------------

    def _write(self, text: str) -> None:
        self._parts.append(text)
        self._size += len(text.encode("utf-8", "surrogatepass"))

    def _since(self, start: int) -> Span:
        return Span(start, self._size)

    def _first_key(self) -> Span:
        """Where a finding of the whole is shown: the first key, or the command."""
        first = self._root.entries[0].key.span
        return first if self._root.span.start == first.start else self._root.span

    def _key_span(self, key: str) -> Span:
        entry = self._root.entry(key)
        return entry.key.span if entry is not None else self._first_key()

    def _entry_span(self, key: str) -> Span:
        """A key with its value; the key alone where a block follows."""
        entry = self._root.entry(key)
        if entry is None:
            return self._first_key()
        if getattr(entry.value, "flow", True) and not getattr(entry.value, "block", False):
            return Span(entry.key.span.start, max(entry.key.span.end, entry.value.span.end))
        return entry.key.span

    def _region(
        self, start: int, place: Span, names: Mapping[str, str], open_names: bool = False
    ) -> None:
        span = self._since(start)
        self._regions.append(
            Region(span, place, self._root.span, names=dict(names), open_names=open_names)
        )


def _literal(value: object) -> str:
    """A YAML value as Python."""
    if isinstance(value, float) and (value != value or value in (float("inf"), -float("inf"))):
        return f'float("{value}")'
    if value is None or isinstance(value, bool | int | float | str):
        return repr(value)
    return "value_of_a_tag"


def regions_at(lowered: Lowered, span: Span) -> Iterator[Region]:
    """The pieces that cover ``span`` of the script, the smallest first."""
    around = [region for region in lowered.regions if region.span.contains(span)]
    yield from sorted(around, key=lambda region: region.span.end - region.span.start)
