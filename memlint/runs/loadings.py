"""How a run's model is loaded: checkpoint, head, dtype, attention, quantization, adapters.

``from_pretrained`` and a trainer's ``model_init_kwargs`` take the same options, read here once.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from memlint.api.knowledge.model_types import default_sizes, type_of_class
from memlint.engine.constants import python_value
from memlint.engine.values import Object, library_base
from memlint.runs import plain_options as read
from memlint.runs.plain_options import Options, Rows, by_rows, count_in, dtype_in, options_of
from memlint.script.called import Call
from memlint.script.calls import Trainer
from memlint.script.loaded_models import ModelFacts
from memlint.script.model import Script
from memlint.source.patterns import lazy_pattern

_ATTENTION = ("eager", "sdpa", "flash_attention_2", "flash_attention_3", "flex_attention")
_LOAD: Rows = (
    ("torch_dtype", "weights_dtype", dtype_in),
    ("dtype", "weights_dtype", dtype_in),
    ("attn_implementation", "attention", lambda value: value if value in _ATTENTION else None),
)
_CLASS: Rows = (
    ("num_labels", "labels", count_in),
    ("id2label", "labels", lambda value: (isinstance(value, Mapping) and len(value)) or None),
)
_FOUR_BITS: Rows = (
    ("bnb_4bit_quant_type", "type", lambda value: value if value in ("nf4", "fp4") else None),
    ("bnb_4bit_use_double_quant", "double_quant", read.flag_in),
    ("bnb_4bit_compute_dtype", "compute_dtype", dtype_in),
)
# Formats by the class of the configuration, and the option that says the bits.
_FORMATS = {
    "GPTQConfig": ("gptq", "bits"),
    "AwqConfig": ("awq", "bits"),
    "HqqConfig": ("hqq", "nbits"),
    "FineGrainedFP8Config": ("fp8", ""),
    "FbgemmFp8Config": ("fp8", ""),
    "FPQuantConfig": ("nvfp4", ""),
    "NVFP4Config": ("nvfp4", ""),
    "Mxfp4Config": ("mxfp4", ""),
    "TorchAoConfig": ("int4", ""),
}
# Formats by what people append to a checkpoint's name.
_NAMED = lazy_pattern(r"(?i)[-_.](awq|gptq|hqq|nvfp4|mxfp4|fp8|bnb-4bit)(?![a-z])")
_LORA: Rows = (
    ("r", "r", count_in),
    ("lora_dropout", "dropout", lambda value: value if isinstance(value, float) else None),
    ("target_modules", "target_modules", read.names_in),
    ("modules_to_save", "modules_to_save", read.names_in),
    ("use_dora", "dora", read.flag_in),
)
# Unsloth's defaults: of adapters, and of a base that it quantizes.
_UNSLOTH_ADAPTER = {"r": 16, "target_modules": "all-linear", "dtype": "float32"}
# ``load_streamed(quantization="nf4")``
_STREAMED: Mapping[Any, Options] = {
    "nf4": {"bits": 4, "type": "nf4", "double_quant": True},
    "int8": {"bits": 8, "type": "int8"},
}
_UNSLOTH_BASE = {"bits": 4, "type": "nf4", "double_quant": True, "kbit_preparation": False}
# Sizes that change what a model needs, as scripts give them beside a checkpoint's name.
_SHAPE = frozenset(
    {
        *("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "head_dim"),
        *("intermediate_size", "num_key_value_heads", "moe_intermediate_size", "num_experts"),
        *("num_local_experts", "n_embd", "n_layer", "n_head", "n_inner", "tie_word_embeddings"),
        *("d_model", "d_kv", "d_ff", "num_layers", "num_heads", "num_decoder_layers"),
    }
)
_VOCABULARY = (
    "its tokenizer counts the vocabulary: the default of the configuration's class is taken"
)
_RESHAPED = "the script gives its configuration more, which is not read: sizes may differ"
# What the classes of transformers put on the last layer's states, by the end of their names.
_HEADS = {
    **dict.fromkeys(("SequenceClassification", "MultipleChoice"), "classes"),
    **dict.fromkeys(("ImageClassification", "AudioClassification"), "classes"),
    **dict.fromkeys(("TokenClassification", "QuestionAnswering"), "tokens"),
    "CausalLM": "lm",
    "AutoModel": "none",
}
FAKE_QUANTIZED = "QAT: a rounded copy of each layer's weights, beside them, is not counted"
_ROUNDS = ("QATConfig", "QATQuantizer", "AwareTrainingConfig", "prepare_qat", "prepare_qat_pt2e")
_LOST = (None, read.OPEN)
_EITHER = "a switch that is not known decides whether it is quantized"
_FIXED = ("Image", "Audio", "Speech", "Video")  # rows of one length, by the processor


def loading_of(script: Script, facts: ModelFacts) -> Options:
    """The settings that the load of a model decides."""
    loads = script.taken(facts.loads)
    if not loads:
        return {"model": facts.name} if isinstance(facts.name, str) else {}
    return _first_quantized(
        [_loading_by(script, facts, own_load(script, facts, one)) for one in loads]
    )


def own_load(script: Script, facts: ModelFacts, load: Call) -> Call:
    """A load by the runs alone that made this model: a helper may load others at the same place."""
    made = [one.made_by for one in facts.objects]
    own = [one for one in load.invocations if any(one is each for each in made)]
    return Call(script, own) if 0 < len(own) < len(load.invocations) else load


def _first_quantized(several: Sequence[Options]) -> Options:
    """The settings by which a model is loaded, where a switch that nobody knows takes one of
    several: the first that quantizes it. A note says so."""
    quantized = [one for one in several if "quantization" in one]
    if not 0 < len(quantized) < len(several):
        return several[0]
    notes = {"quantization.type": _EITHER}
    return {**quantized[0], "notes": {**quantized[0].get("notes", {}), **notes}}


def _loading_by(script: Script, facts: ModelFacts, load: Call) -> Options:
    held = [python_value(load.argument(0)), load.setting("config").value]
    made = next((one for one in held if isinstance(one, Object)), None)
    sizes = read.items_of(script, made) if made is not None else {}
    options = options_of(load)
    name, kind = _named(script, facts, load, made)
    is_open = made is not None and made.open
    if isinstance(name, str):
        values = _resized(name, {**sizes, **options}, is_open=is_open)
    else:
        values = _built(kind, sizes, is_open=is_open)
    values |= (
        format_by_name(name)
        | _head(load.name.rpartition(".")[0], {**sizes, **options})
        | loaded(script, options)
    )
    for dtype in filter(None, (dtype_in(name) for _, name in script.casts_of(facts))):
        values["weights_dtype"] = dtype
    undecided = not load.has_unknown_keywords and "quantization" not in values
    plain = undecided and script.api.behaviour("load-dtype") == "float32"
    if plain or isinstance(held[0], Object):
        values.setdefault("weights_dtype", "float32")
    return values


def _named(
    script: Script, facts: ModelFacts, load: Call, made: Object | None
) -> tuple[object, str]:
    """The checkpoint's name, and the ``model_type`` of a configuration without one."""
    config = read.made_by_call(script, made)
    given = python_value((config or load).argument(0))
    if config is not None and config.method == "for_model":
        return None, str(given)
    cls = made.cls if made is not None else None
    named = config.method if config is not None else ""
    kind = type_of_class((library_base(cls) or "").rpartition(".")[2] if cls else named)
    return facts.name if isinstance(facts.name, str) else given, kind


def _resized(name: str, given: Options, *, is_open: bool) -> Options:
    """A checkpoint's model, with the script's own sizes in the place of some."""
    sizes = {key: one for key, one in given.items() if key in _SHAPE}
    known = {key: one for key, one in sizes.items() if type(one) in (int, bool)}
    notes = {"notes": {"model": _RESHAPED}} if is_open or len(known) < len(sizes) else {}
    return {"model": {"config": {"_name_or_path": name, **known}} if known else name, **notes}


def _built(kind: str, given: Options, *, is_open: bool) -> Options:
    """A model by the sizes that a script gives to its configuration (``LlamaConfig(...)``), and by
    the defaults of its class for all others."""
    defaults = default_sizes(kind)
    sizes = {key: one for key, one in given.items() if type(one) in (int, float, bool, str)}
    lost = {key for key in (_SHAPE | defaults.keys()) & given.keys() if sizes.get(key) in _LOST}
    if is_open or not defaults or lost - {"vocab_size"}:
        return {}
    sizes = {key: one for key, one in sizes.items() if key not in lost}
    notes = {"notes": {"model": _VOCABULARY}} if lost else {}
    return {"model": {"config": {"model_type": kind, **defaults, **sizes}}, **notes}


def _head(kind: str, options: Options) -> Options:
    """What a class puts on the last layer's states."""
    found = [head for end, head in _HEADS.items() if kind.endswith(end)]
    values = by_rows(options, _CLASS) | ({"head": found[0]} if found else {})
    return values | ({"fixed_length": True} if any(word in kind for word in _FIXED) else {})


def loading_by_name(script: Script, trainer: Trainer) -> Options:
    """The settings of a model that its trainer loads by name."""
    options = read.mapping_of(script, trainer.loading_options.value) or {}
    given = trainer.setting("quantization_config")
    if given.given is not False:
        options.setdefault("quantization_config", read.settled(script, given))
    name = trainer.model.name
    values = {"model": name, **format_by_name(name), **loaded(script, options)}
    written = {"dtype", "torch_dtype"} & set(options)
    if not written and script.api.behaviour("string-model-dtype") == "float32":
        values.setdefault("weights_dtype", "float32")
    return values


def loaded(script: Script, options: Options) -> Options:
    """What options of a load say of dtype, attention and quantization."""
    values, given = by_rows(options, _LOAD), options.get("quantization_config")
    several = given.values if isinstance(given, read.Either) else (given,)
    return _first_quantized([{**values, **_quantized(script, one, options)} for one in several])


def _quantized(script: Script, given: object, options: Options) -> Options:
    """What a configuration, or the options of a load beside it, say of quantization."""
    values: Options = {}
    call = read.made_by_call(script, given)
    inner: Any = options_of(call) if call is not None else given
    if not isinstance(inner, Mapping):
        if isinstance(given, Object) or given == read.OPEN:
            return {"notes": {"quantization.type": "what quantizes it is out of sight"}}
        inner = options
    if call is not None and call.method in _FORMATS:
        values |= _format(call, inner)
    eight, four = (_switch(inner.get(f"load_in_{bits}bit")) for bits in (8, 4))
    if None in (eight, four):
        values["notes"] = {"quantization.type": _EITHER}
    if eight:
        values["quantization"] = {"bits": 8, "type": "int8"}
    elif four or None in (eight, four):
        # bitsandbytes takes fp4 and computes in float32 where nobody chooses.
        chosen = by_rows({"bnb_4bit_compute_dtype": "float32", **inner}, _FOUR_BITS)
        values["quantization"] = {"bits": 4, "type": "fp4", **chosen}
    elif (named := options.get("quantization")) in _STREAMED:
        values["quantization"] = _STREAMED[named]
    return values


def _switch(value: object) -> bool | None:
    """Whether an option is on; None where nobody can tell."""
    return None if value == read.OPEN or isinstance(value, read.Either) else value is True


def _format(call: Call, options: Options) -> Options:
    """A format of another library than bitsandbytes; torchao's is named by its first argument."""
    kind, bits = _FORMATS[call.method]
    if options.get("dequantize") is True:
        return {"weights_dtype": "bfloat16"}
    said = str(options.get("quant_type", python_value(call.argument(0)))).lower()
    if kind == "int4" and "4" not in said:
        return {"notes": {"quantization.type": "what quantizes it is not read"}}
    kind = "mxfp4" if options.get("forward_dtype") == "mxfp4" else kind
    number = count_in(options.get(bits)) or (8 if kind == "fp8" else 4)
    return {"quantization": {"bits": number, "type": kind}}


def format_by_name(name: object) -> Options:
    """The format that a checkpoint's name ends in."""
    match = _NAMED.search(name) if isinstance(name, str) else None
    if match is None:
        return {}
    kind = match[1].lower()
    stored = {"bits": 8 if kind == "fp8" else 4, "type": kind}
    nested = {"bits": 4, "type": "nf4", "double_quant": True}
    return {"quantization": nested if kind == "bnb-4bit" else stored}


def adapter_of(script: Script, facts: ModelFacts, given: object) -> Options:
    """The settings of a model's adapter, of whatever kind PEFT has."""
    calls = (script.call_anywhere(one.made_by.node) for one in facts.objects if one.made_by)
    configs = [given, *(_config_in(call) for call in calls if call is not None)]
    found = [call for one in configs if (call := read.made_by_call(script, one)) is not None]
    made = [call for call in read.calls_anywhere(script, "Config") if call.name[:5] == "peft."]
    made.sort(key=lambda call: call.method != "LoraConfig")
    chosen = next(iter([*found, *made]), None)
    options = options_of(chosen) if chosen is not None else {}
    values = _linear(script, options) | by_rows(options, _LORA)
    if chosen is None and (wrapped := [*_of_unsloth(script, "get_peft_model")]):
        values = _UNSLOTH_ADAPTER | by_rows(options_of(wrapped[-1]), _LORA)
    fixed = any(read.calls_anywhere(script, "create_lorafa_optimizer"))
    return values | ({"frozen_a": True} if fixed else {})


def _linear(script: Script, options: Options) -> Options:
    """The targets that are found by the class of modules: ``find_all_linear_names(model)``."""
    nodes = [one.node for one in script.method_calls_anywhere("named_modules")]
    found = [script.text(script.function(node) or script.statement(node)) for node in nodes]
    given = options.get("target_modules") is not None and "Linear" in " ".join(found)
    return {"target_modules": "all-linear"} if given else {}


def _of_unsloth(script: Script, method: str) -> Iterator[Call]:
    """Yield the calls of a method of Unsloth's model classes."""
    calls = read.calls_anywhere(script, f".{method}")
    return (call for call in calls if call.name.startswith("unsloth."))


def loading_by_unsloth(script: Script) -> Options:
    """What Unsloth's calls decide of a model, its adapter's checkpointing and its loss, by their
    defaults too. Source: ``unsloth/models/loader.py`` and ``llama.py``."""
    load = next(_of_unsloth(script, "from_pretrained"), None)
    if load is None:
        return {}
    options = options_of(load)
    name = options.get("model_name", python_value(load.argument(0)))
    other = any(options.get(f"load_in_{bits}bit") is True for bits in (8, 16))
    values: Options = {"model": name} if isinstance(name, str) else {}
    values |= {"weights_dtype": "bfloat16", "attention": "flash_attention_2", "loss": "chunked"}
    values |= by_rows(options, (("max_seq_length", "seq_len", count_in),))
    if options.get("load_in_8bit") is True:
        values["quantization"] = {"bits": 8, "type": "int8", "kbit_preparation": False}
    elif options.get("load_in_4bit", not other) and options.get("full_finetuning") is not True:
        values["quantization"] = _UNSLOTH_BASE
    for call in _of_unsloth(script, "get_peft_model"):
        again = options_of(call).get("use_gradient_checkpointing", "unsloth")
        values["checkpointing"] = "full" if again else "none"
        values |= {"offload": "activations"} if again == "unsloth" else {}
    return values


def _config_in(wrapper: Call) -> object:
    if wrapper.method not in ("get_peft_model", "add_adapter"):
        return None
    config = wrapper.setting("peft_config")
    return config.value if config.given else python_value(wrapper.argument(1))


def rounded_copies(script: Script) -> Options:
    """What is said of training that is aware of a quantization to come."""
    rounds = any(read.calls_anywhere(script, *_ROUNDS))
    return {"notes": {"quantization.type": FAKE_QUANTIZED}} if rounds else {}
