"""A recipe of torchtune, axolotl or LLaMA-Factory in the memory model's words: a table for each.

Sources: the recipes and components of torchtune; ``loaders/model.py``, ``utils/config`` and the
schemas of axolotl; ``hparams`` and ``model/adapter.py`` of LLaMA-Factory.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from memlint.api.lookup import Api
from memlint.recipes.document import values
from memlint.recipes.kinds import Kind
from memlint.recipes.recipe import UNKNOWN, Recipe
from memlint.recipes.recipe_training import is_adapter, is_sharded
from memlint.runs.devices import by_deepspeed, by_file_name, by_fsdp, by_sizes, launched
from memlint.runs.loadings import FAKE_QUANTIZED, format_by_name
from memlint.runs.optimizer_names import named_optimizer
from memlint.runs.plain_options import OPEN, Options, Rows, by_rows, count_in, flag_in, names_in
from memlint.script.launcher import Launcher
from memlint.source.record import NamedTuple

# The file of the project that a recipe means by a word, read; None where there is none.
Files = Callable[[str], Recipe | None]
Ask = Callable[[str], Any]

_TRAINERS = {
    **{word: f"trl.{word.upper()}Trainer" for word in ("dpo", "orpo", "kto", "grpo", "rloo")},
    "ipo": "trl.DPOTrainer",
    "simpo": "trl.CPOTrainer",
    "rm": "trl.RewardTrainer",
}
_ADAPTERS = ("lora", "qlora", "oft", "adalora", "vera")


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value and value != OPEN else None


def _share(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) else None


def _word(meanings: Mapping[Any, object]) -> Callable[[Any], object]:
    """What reads a value by a table; None for all else."""
    return lambda value: meanings.get(value) if isinstance(value, (str, bool)) else None


def _if_on(meaning: object) -> Callable[[Any], object]:
    return _word({True: meaning})


def _saving(ops: object) -> str | None:
    """What is computed again where a recipe lists what is kept."""
    alone = ops == ["attention"]
    return "all_but_attention" if alone else "selective" if isinstance(ops, list) else None


def _all_or_names(value: object) -> object:
    """Names in a list, or in a text with commas; ``all`` linear maps."""
    if isinstance(value, str) and value != OPEN:
        names = value.replace(" ", "").split(",")
        return "all-linear" if names == ["all"] else names
    return names_in(value)


class _Program(NamedTuple):
    """How a program's recipe is read.

    rows: of the run, by key. lora: of its adapter. more: what several keys decide together.
    defaults: the program's own, by key.
    """

    rows: Rows
    lora: Rows
    more: Callable[[Recipe, Ask], Options]
    defaults: Mapping[str, object]


# -- axolotl ---------------------------------------------------------------------------------------

_ATTENTION = {
    **{name: name for name in ("eager", "sdpa", "flash_attention_2", "flash_attention_3")},
    "flex_attention": "flex_attention",
    "flash": "flash_attention_2",
}
# Words for checkpoints that wait in host memory.
_OFFLOADED = ("offload", "unsloth")
_WAITING = (True, "legacy", "disk", "hidden_states")
# How many GPUs share a row, or a layer.
_PARALLEL = {
    "context_parallel_size": "cp_size",
    "sequence_parallel_degree": "cp_size",
    "context_parallel_dim": "cp_size",
    "tensor_parallel_size": "tp_size",
    "tensor_parallel_dim": "tp_size",
    "expert_parallel_size": "ep_size",
    "dp_shard_size": "dp_shard_size",
    "data_parallel_shard_dim": "dp_shard_size",
    "dp_replicate_size": "dp_replicate_size",
    "data_parallel_replicate_dim": "dp_replicate_size",
}
# LLaMA-Factory's switches for optimizers; those that are frozen by turns are not counted.
_SWITCHED = {
    "use_galore": "galore_adamw",
    "use_apollo": "apollo_adamw",
    "use_adam_mini": "adam_mini",
    "use_muon": "muon_beside_adamw",
}
_AXOLOTL: Rows = (
    ("base_model", "model", _text),
    ("micro_batch_size", "micro_batch", count_in),
    ("gradient_accumulation_steps", "gradient_accumulation", count_in),
    ("sequence_len", "seq_len", count_in),
    ("sample_packing", "packed", flag_in),
    ("pad_to_sequence_len", "fixed_length", _if_on(True)),
    ("group_by_length", "longest_first", _if_on(True)),
    ("optimizer", "optimizer", _text),
    (
        "gradient_checkpointing",
        "checkpointing",
        _word({True: "full", False: "none", **dict.fromkeys(_OFFLOADED, "full")}),
    ),
    ("gradient_checkpointing", "offload", _word(dict.fromkeys(_OFFLOADED, "activations"))),
    ("selective_checkpointing", "checkpointing", _if_on("all_but_attention")),
    ("selective_checkpointing.save", "checkpointing", _saving),
    ("activation_offloading", "offload", _word(dict.fromkeys(_WAITING, "activations"))),
    ("flash_attention", "attention", _if_on("flash_attention_2")),
    ("sdp_attention", "attention", _if_on("sdpa")),
    ("flex_attention", "attention", _if_on("flex_attention")),
    ("eager_attention", "attention", _if_on("eager")),
    ("attn_implementation", "attention", _word(_ATTENTION)),
    ("chunked_cross_entropy", "loss", _if_on("chunked")),
    ("cut_cross_entropy", "loss", _if_on("liger")),
    ("liger_fused_linear_cross_entropy", "loss", _if_on("liger")),
    ("torch_compile", "compile", _if_on(True)),
    ("tiled_mlp", "tiled_mlp", _if_on(True)),
    ("trl.num_generations", "group_size", count_in),
    ("trl.max_completion_length", "completion_len", count_in),
)


def _axolotl(recipe: Recipe, ask: Ask) -> Options:
    """Weights are loaded in the dtype that is computed in."""
    narrow, half = ask("bf16") or ask("bfloat16"), ask("fp16") or ask("float16")
    eights = ask("load_in_8bit") is True
    dtype = "bfloat16" if narrow else "float16" if half or eights else "float32"
    mixed = ask("bf16") in (True, "auto") or ask("fp16") in (True, "auto")
    trainer = _TRAINERS.get(str(ask("rl")), "transformers.Trainer")
    kept: Options = {"weights_dtype": dtype, "compute_dtype": dtype, "autocast": mixed}
    kept["trainer"] = "trl.RewardTrainer" if ask("reward_model") is True else trainer
    kept |= {"optimizer": "muon_beside_adamw"} if ask("optimizer") == "muon" else {}
    if "CutCrossEntropyPlugin" in str(ask("plugins")) and ask("cut_cross_entropy") is not False:
        kept["loss"] = "liger"
    return kept | _axolotl_method(ask, dtype) | _axolotl_evaluation(ask)


def _axolotl_method(ask: Ask, dtype: str) -> Options:
    """What is trained: a quantized base is prepared, and then cast back."""
    if ask("adapter") in _ADAPTERS:
        bits = 8 if ask("load_in_8bit") is True else 4 if ask("load_in_4bit") is True else 0
        quantized = {"quantization": _quantized(bits, dtype, double=True)} if bits else {}
        said = "layer_offloading: frozen layers wait on the host, embeddings and head do not"
        waits = {"notes": {"streamed": said}} if ask("layer_offloading") is True else {}
        return {"method": "lora", **quantized, **waits}
    if any(map(ask, ("unfrozen_parameters", "peft_layers_to_transform", "lisa_n_layers"))):
        return {"notes": {"method": "some weights are frozen, which nobody counts here"}}
    return {"method": "full"}


def _axolotl_evaluation(ask: Ask) -> Options:
    """Its batch is that of training where none is named."""
    held_out = ask("test_datasets") or (ask("val_set_size") or 0) != 0
    if not held_out or ask("eval_strategy") == "no":
        return {}
    rows = count_in(ask("eval_batch_size")) or count_in(ask("micro_batch_size"))
    return {"evaluation": True, "eval_batch": rows or 1}


# -- LLaMA-Factory ---------------------------------------------------------------------------------

_FLASH = {"fa2": "flash_attention_2", "sdpa": "sdpa", "disabled": "eager"}
_LLAMA_FACTORY: Rows = (
    ("model_name_or_path", "model", _text),
    ("per_device_train_batch_size", "micro_batch", count_in),
    ("gradient_accumulation_steps", "gradient_accumulation", count_in),
    ("cutoff_len", "seq_len", count_in),
    ("packing", "packed", flag_in),
    ("optim", "optimizer", _text),
    ("flash_attn", "attention", _word(_FLASH)),
    ("use_reentrant_gc", "checkpointing", _word({True: "reentrant", False: "full"})),
    ("disable_gradient_checkpointing", "checkpointing", _if_on("none")),
    ("enable_liger_kernel", "loss", _if_on("liger")),
    ("use_unsloth_gc", "offload", _if_on("activations")),
    ("group_by_length", "longest_first", _if_on(True)),
    ("torch_compile", "compile", _if_on(True)),
)


def _llama_factory(recipe: Recipe, ask: Ask) -> Options:
    """What is trained is cast to float32, but for pure bf16; the frozen base is not prepared."""
    narrow, half = ask("bf16") is True, ask("fp16") is True
    pure, tuning = ask("pure_bf16") is True, ask("finetuning_type")
    dtype = "bfloat16" if narrow or pure else "float16" if half else "float32"
    wide = tuning != "lora" and not pure
    kept: Options = {
        "trainer": _TRAINERS.get(str(ask("stage")), "transformers.Trainer"),
        "weights_dtype": "float32" if wide else dtype,
        "compute_dtype": dtype,
        "autocast": (narrow or half) and not pure,
    }
    if tuning in ("full", "lora"):
        kept["method"] = tuning
    else:
        kept["notes"] = {"method": f"finetuning_type: {tuning}, which nobody counts here"}
    if ask("use_badam") is True:
        kept["notes"] = {"optimizer": "use_badam: blocks are trained by turns"}
    kept |= _switched(ask) | _quantized_by_factory(ask, dtype)
    if ask("eval_strategy") not in (None, "no"):
        kept |= {"evaluation": True, "eval_batch": count_in(ask("per_device_eval_batch_size"))}
    return kept | ({"reference_model": False} if ask("pref_loss") in ("orpo", "simpo") else {})


def _switched(ask: Ask) -> Options:
    for key, name in _SWITCHED.items():
        if ask(key) is True:
            layerwise = ask(f"{key.removeprefix('use_')}_layerwise") is True
            return {"optimizer": f"{name}_layerwise" if layerwise else name}
    return {}


def _quantized_by_factory(ask: Ask, dtype: str) -> Options:
    """The format of a base that is quantized as it is loaded."""
    bits, how = ask("quantization_bit"), ask("quantization_method")
    if bits not in (4, 8):
        return {}
    if how in ("hqq", "eetq"):
        return {"quantization": {"bits": bits, "type": "hqq" if how == "hqq" else "int8"}}
    return {"quantization": _quantized(bits, dtype, double=ask("double_quantization") is True)}


def _quantized(bits: int, dtype: str, *, double: bool) -> Options:
    """Quantized base weights as bitsandbytes keeps them, unprepared."""
    kept: Options = {"bits": bits, "type": "int8" if bits == 8 else "nf4", "compute_dtype": dtype}
    return {**kept, "double_quant": double and bits == 4, "kbit_preparation": False}


# -- torchtune -------------------------------------------------------------------------------------

_NARROW = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}
_TORCHTUNE: Rows = (
    ("batch_size", "micro_batch", count_in),
    ("gradient_accumulation_steps", "gradient_accumulation", count_in),
    ("tokenizer.max_seq_len", "seq_len", count_in),
    ("dataset.packed", "packed", flag_in),
    ("dtype", "weights_dtype", _word(_NARROW)),
    ("dtype", "compute_dtype", _word(_NARROW)),
    ("enable_activation_checkpointing", "checkpointing", _word({True: "full", False: "none"})),
    ("enable_activation_offloading", "offload", _if_on("activations")),
    ("compile", "compile", flag_in),
)
# Its names for maps that others call so.
_MAPS = {"output_proj": "o_proj", "w1": "gate_proj", "w2": "down_proj", "w3": "up_proj"}
# Builders whose names are no checkpoint's.
_BUILDERS = {
    "phi3_mini": "microsoft/Phi-3-mini-4k-instruct",
    "phi4_14b": "microsoft/phi-4",
    "mistral_7b": "mistralai/Mistral-7B-v0.1",
    "llama3_2_vision_11b": "meta-llama/Llama-3.2-11B-Vision",
    "llama4_scout_17b_16e": "meta-llama/Llama-4-Scout-17B-16E",
}
_SIZED = re.compile(r"\d(?:b|m)(?:_|$)|mini$")


def _torchtune(recipe: Recipe, ask: Ask) -> Options:
    """Everything is in the recipe's dtype, without autocast; the builder says what is trained."""
    builder = recipe.component("model").rpartition(".")[2]
    adapted, kept = "lora_" in builder, _optimizer(recipe, ask)
    kept |= {"trainer": "loop", "autocast": False, "method": "lora" if adapted else "full"}
    named = _checkpoint(recipe, re.sub(r"^(?:q?d?o?lora_|qlora_|lora_)", "", builder))
    kept |= {"model": named} if named else {}
    if ask("ac_mode") and ask("enable_activation_checkpointing") is False:
        kept["checkpointing"] = "selective" if ask("ac_mode") == "selective" else "full"
    loss = recipe.component("loss")
    whole = "Linear" not in loss and "Chunked" not in loss
    kept |= {"loss": "full_logits" if whole else "chunked"} if loss else {}
    if "dpo" in f"{recipe.name} {loss}".lower():
        kept |= {"trainer": "trl.DPOTrainer", "loss": "full_logits"}
    if adapted and (builder.startswith("q") or ask("model.quantize_base") is True):
        kept["quantization"] = _quantized(
            4, _NARROW.get(str(ask("dtype")), "bfloat16"), double=True
        )
    if is_sharded(recipe):
        host = ask("fsdp_cpu_offload") is True
        kept |= {"sharding": "fsdp2", "sharding_options": {"offload_params": True} if host else {}}
    return kept


def _checkpoint(recipe: Recipe, builder: str) -> str:
    """The model's name: by its builder where that has a size, else by the checkpoint's folder."""
    if builder in _BUILDERS or _SIZED.search(builder):
        return _BUILDERS.get(builder, builder)
    folder = recipe.option("checkpointer.checkpoint_dir").value
    return folder.rstrip("/").rpartition("/")[2] if isinstance(folder, str) else ""


def _optimizer(recipe: Recipe, ask: Ask) -> Options:
    path = recipe.component("optimizer")
    if not path or path.endswith(".CPUOffloadOptimizer"):
        leaves = "_in_backward" * (ask("optimizer.offload_gradients") is True)
        name = "adamw_torch_fused" + leaves
        return {"optimizer": name, "offload": "optimizer"} if path else {}
    name = named_optimizer(path, {key: ask(f"optimizer.{key}") for key in ("fused", "optim_bits")})
    name += "_in_backward" * (ask("optimizer_in_bwd") is True and not is_adapter(recipe))
    return {"optimizer": name, "notes": {"optimizer": f"the recipe names {path}"}}


def _torchtune_targets(recipe: Recipe) -> tuple[str, ...]:
    """The maps that have adapters, by the names of other libraries."""
    given = recipe.option("model.lora_attn_modules").value
    names = [str(one) for one in given] if isinstance(given, list) else []
    if recipe.option("model.apply_lora_to_mlp").value is True:
        names += ["gate_proj", "up_proj", "down_proj"]
    if recipe.option("model.apply_lora_to_output").value is True:
        names.append("lm_head")
    return tuple(_MAPS.get(name, name) for name in names)


# -- all programs ----------------------------------------------------------------------------------

_PROGRAMS: Mapping[Kind, _Program] = {
    Kind.AXOLOTL: _Program(
        _AXOLOTL,
        (
            ("lora_r", "r", count_in),
            ("lora_dropout", "dropout", _share),
            ("lora_target_modules", "target_modules", _all_or_names),
            ("lora_target_linear", "target_modules", _if_on("all-linear")),
            ("lora_modules_to_save", "modules_to_save", names_in),
            ("peft_use_dora", "dora", flag_in),
        ),
        _axolotl,
        {
            "micro_batch_size": 1,
            "sequence_len": 512,
            "optimizer": "adamw_torch_fused",
            "gradient_checkpointing": False,
            "lora_r": 8,
        },
    ),
    Kind.LLAMA_FACTORY: _Program(
        _LLAMA_FACTORY,
        (
            ("lora_rank", "r", count_in),
            ("lora_dropout", "dropout", _share),
            ("lora_target", "target_modules", _all_or_names),
            ("additional_target", "modules_to_save", _all_or_names),
            ("use_dora", "dora", flag_in),
        ),
        _llama_factory,
        {
            "per_device_train_batch_size": 8,
            "per_device_eval_batch_size": 8,
            "cutoff_len": 2048,
            "finetuning_type": "lora",
            "lora_rank": 8,
            "lora_target": "all",
            "use_reentrant_gc": True,
            "double_quantization": True,
        },
    ),
    Kind.TORCHTUNE: _Program(
        _TORCHTUNE,
        (
            ("model.lora_rank", "r", count_in),
            ("model.lora_dropout", "dropout", _share),
            ("model.use_dora", "dora", flag_in),
        ),
        _torchtune,
        {"batch_size": 1, "enable_activation_checkpointing": False, "dtype": "bf16"},
    ),
}


def settings_of_recipe(
    recipe: Recipe, api: Api, launcher: Launcher, files: Files
) -> Options | None:
    """Return the settings of a recipe's training, as JSON has them; None where no table reads it.

    launcher: what its launch command decides. files: reads a file that the recipe names.
    """
    program = _PROGRAMS.get(recipe.kind)
    if program is None:
        return None

    def ask(key: str) -> Any:
        value = recipe.option(key).value
        return OPEN if value is UNKNOWN else program.defaults.get(key) if value is None else value

    given = {key: ask(key) for key, _, _ in (*program.rows, *program.lora)}
    kept = by_rows(given, program.rows)
    more = program.more(recipe, ask)
    notes = dict(_open(given, program.rows, kept))
    if "optimizer" in kept:
        notes["optimizer"] = f"the recipe names {kept['optimizer']}"
    shared = _devices(recipe, ask, api, files, kept | more)
    kept |= more | launched(launcher, "") | shared
    kept |= _in_parallel(ask, kept)
    notes |= more.get("notes", {}) | shared.get("notes", {})
    if recipe.has("qat") or "QAT" in recipe.component("quantizer"):
        notes["quantization.type"] = FAKE_QUANTIZED
    if kept.get("method") == "lora":
        kept = {**format_by_name(kept.get("model")), **kept}
        kept["lora"] = by_rows(given, program.lora)
        if recipe.kind is Kind.TORCHTUNE:
            kept["lora"] |= {"dtype": kept["weights_dtype"]} if "weights_dtype" in kept else {}
            kept["lora"]["target_modules"] = list(_torchtune_targets(recipe))
        kept["method"] = "qlora" if "quantization" in kept else "lora"
    kept["versions"] = _versions(recipe, api)
    if kept.get("loss") == "liger":
        kept["versions"]["liger_kernel"] = "newest"
    return {**kept, "notes": notes}


def _open(given: Options, rows: Rows, kept: Options) -> Iterator[tuple[str, str]]:
    """Yield the settings that a command or another program decides later, with the reason."""
    for key, field, _ in rows:
        if given[key] == OPEN and field not in kept:
            yield field, f"`{key}` is decided when it is run"


def _devices(recipe: Recipe, ask: Ask, api: Api, files: Files, kept: Options) -> Options:
    """What the recipe's own engine shards."""
    dtype = str(kept.get("compute_dtype", "")) if kept.get("autocast") else ""
    engine = ask("deepspeed")
    if isinstance(engine, Mapping):
        return by_deepspeed(engine, dtype)
    if isinstance(engine, str) and recipe.kind is not Kind.TORCHTUNE:
        file = files(engine)
        if file is not None:
            return by_deepspeed(values(file.document.root), dtype)
        return by_file_name(engine, dtype, "zero2")
    options = ask("fsdp_config")
    options = dict(options) if isinstance(options, Mapping) else {}
    words = ask("fsdp") or (bool(options) and recipe.kind is Kind.AXOLOTL)
    version = count_in(ask("fsdp_version"))
    return by_fsdp(words, options, version or int(api.behaviour("fsdp-version")))


def _in_parallel(ask: Ask, kept: Options) -> Options:
    """How rows and layers are divided, beside what is sharded."""
    given = ((option, count_in(ask(key))) for key, option in _PARALLEL.items())
    sizes = {option: size for option, size in given if size and size > 1}
    if not sizes:
        return {}
    shared = by_sizes(sizes)
    options = {**kept.get("sharding_options", {}), **shared["sharding_options"]}
    return {"sharding": "none", **shared, **kept, "sharding_options": options}


def _versions(recipe: Recipe, api: Api) -> dict[str, str]:
    if recipe.kind is Kind.TORCHTUNE:
        torch = api.target.version("torch").version
        return {"torchtune": recipe.release or "newest", "torch": torch}
    return api.target.releases
