"""The settings of a run, read from a script's model.

What the script leaves open stays out, so that the estimate names it as an assumption.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from memlint.engine.values import Object
from memlint.memory.facts import DTYPE_AUTO, TRL_FLOAT32, reaches
from memlint.memory.sharding import plain_options, unread
from memlint.script.call_settings import Setting
from memlint.script.lengths import Lengths
from memlint.script.purpose import Purpose

if TYPE_CHECKING:
    from memlint.script import Call, Config, ModelFacts, Script, Trainer

_TRAINERS = {
    "SFTTrainer": "trl.SFTTrainer",
    "DPOTrainer": "trl.DPOTrainer",
    "ORPOTrainer": "trl.DPOTrainer",
    "CPOTrainer": "trl.DPOTrainer",
    "GRPOTrainer": "trl.GRPOTrainer",
    "RLOOTrainer": "trl.GRPOTrainer",
}
_LIBRARIES = ("trl", "transformers", "peft", "accelerate", "torch")
_DTYPES = ("bfloat16", "float16", "float32")
_ATTENTION = ("eager", "sdpa", "flash_attention_2", "flash_attention_3", "flex_attention")
_FUSES = (
    "fuse", "losses.fuse", "fuse_causal_lm_loss", "losses.fuse_causal_lm_loss",
    "compat.fuse_causal_lm_loss",
)  # fmt: skip
_RUNTIME: tuple[tuple[Mapping[str, Any], tuple[str, ...]], ...] = (
    (
        {"loss": "liger"},
        (*_FUSES, "fuse_trl_losses", "losses.fuse_trl_losses", "compat.fuse_trl_losses"),
    ),
    ({"checkpointing": "full"}, ("checkpoint_activations",)),
    ({"offload": "activations"}, ("offload_activations",)),
    ({"streamed": True}, ("stream_frozen_weights", "streaming.stream_frozen_weights")),
    ({"head_in_tiles": True}, _FUSES),
)
_MIXES = (
    "torch.autocast", "torch.amp.autocast", "torch.cuda.amp.autocast", "accelerate.Accelerator",
    "lightning.Fabric", "deepspeed.initialize",
)  # fmt: skip
_MIXED = {"bf16": "bfloat16", "fp16": "float16"}
_LIMITS = (Lengths.TRUNCATED, Lengths.PADDED, Lengths.CUT)
_PARALLEL = ("dp_replicate_size", "dp_shard_size", "tp_size", "cp_size", "sp_size")
_NUMBERS = (
    ("micro_batch", "per_device_train_batch_size"),
    ("gradient_accumulation", "gradient_accumulation_steps"),
    ("group_size", "num_generations"),
    ("prompt_len", "max_prompt_length"),
    ("completion_len", "max_completion_length"),
)


def settings_of(script: Script) -> dict[str, Any] | None:
    """The settings of the script's training, as JSON has them; None where none is found.

    A script with several trainers is read by its last one.
    """
    if script.training:
        values, adapter = _trained(script, script.training[-1])
    elif script.loops:
        values, adapter = _looped(script)
    else:
        return None
    values.update(_launched(script))
    values.update(_frozen(script))
    values.update(_parallel(script))
    # The trainers' option applies all of Liger's kernels, the runtime's loss none of them.
    by_liger = values.get("loss") == "liger" and values["trainer"] != "loop"
    values.update(_by_runtime(script, values["trainer"]))
    if adapter is not None:
        values["method"] = "qlora" if "quantization" in values else "lora"
        values["lora"] = _lora(adapter)
    elif "quantization" in values:
        values["method"] = "qlora"
    else:
        values["method"] = "full"
    values["versions"] = _versions(script)
    if by_liger:
        values["versions"]["liger_kernel"] = "newest"
    return values


def _parallel(script: Script) -> dict[str, Any]:
    """How Accelerate divides sequences, layers and weights over GPUs, where all sizes are numbers:
    contexts and weights with FSDP 2."""
    sizes: dict[str, int] = {}
    for call in script.method_calls("ParallelismConfig"):
        for name in _PARALLEL:
            size = call.setting(name)
            if size.given is not False:
                if not _is_number(size.value):
                    return {}
                sizes[name] = int(str(size.value))
    if not sizes:
        return {}
    options = {
        "cp_size": sizes.get("cp_size", 1) * sizes.get("sp_size", 1),
        "tp_size": sizes.get("tp_size", 1),
    }
    return {
        "sharding": "fsdp2",
        "world_size": math.prod(sizes.values()),
        "sharding_options": {name: size for name, size in options.items() if size > 1},
    }


def _launched(script: Script) -> dict[str, Any]:
    """How the launcher divides the run over GPUs."""
    launcher = script.launcher
    values: dict[str, Any] = {}
    if launcher.sharding not in (None, "none"):
        values["sharding"] = launcher.sharding
        options = plain_options(launcher.options)
        values["sharding_options"] = {
            name: value for name, value in options.items() if not unread({name: value})
        }
    if launcher.processes and launcher.sharding is not None:
        values["world_size"] = launcher.processes
    if launcher.mixed_precision in _MIXED:
        values.update(compute_dtype=_MIXED[launcher.mixed_precision], autocast=True)
    if launcher.checkpoints:
        values["checkpointing"] = "full"
    return values


def _trained(script: Script, trainer: Trainer) -> tuple[dict[str, Any], Call | None]:
    """What a trainer's training says, and the configuration of its adapter."""
    kind = trainer.kind.rpartition(".")[2]
    values: dict[str, Any] = {"trainer": _TRAINERS.get(kind, "transformers.Trainer")}
    values.update(_model(script, trainer.model))
    if trainer.kind.startswith("memlint_runtime.") and kind in ("GRPOTrainer", "RLOOTrainer"):
        values["shared_prompt"] = True
    if kind in ("ORPOTrainer", "CPOTrainer"):
        values["reference_model"] = False  # pairs as DPO has them, and no reference
    if trainer.setting("ref_model").given and not trainer.setting("ref_model").is_none:
        values["reference_model"] = True
    for config in script.configs:
        if trainer in script.training_with(config):
            values.update(_arguments(config))
    if trainer.settled("loss_type") == "chunked_nll":
        values["loss"] = "chunked"
    if trainer.checkpointed_by_call:
        values["checkpointing"] = "full"
    if "seq_len" not in values and values["trainer"] == "transformers.Trainer":
        values.update(_tokens(script))
    adapter = _made(script, trainer.setting("peft_config"))
    if adapter is None and trainer.peft is not False:
        adapter = _adapter(script)
    return values, adapter


def _looped(script: Script) -> tuple[dict[str, Any], Call | None]:
    """What a hand-written loop says, and the configuration of its adapter."""
    load = _looped_load(script)
    model = _load(script, load) if load is not None else _configured(script)
    return {"trainer": "loop", **model, **_loop(script), **_tokens(script)}, _adapter(script)


def _looped_load(script: Script) -> Call | None:
    """What loads the model that a loop trains: the last that may be, where several are loaded."""
    trained = {one.load.node for one in script.loop_models}
    frozen = {load.node for load in _frozen_loads(script)}
    loads = [load for load in script.model_loads if load.node not in frozen]
    return next(reversed([load for load in loads if load.node in trained] or loads), None)


def _frozen(script: Script) -> dict[str, Any]:
    """The models that steps run and nothing trains: a teacher, a reference of the script's own."""
    models: dict[str, str] = {}
    for load in _frozen_loads(script):
        values = _load(script, load)
        if "model" in values:
            stored = values.get("quantization", {}).get("type")
            models[values["model"]] = stored or values.get("weights_dtype", "bfloat16")
    return {"frozen_models": models} if models else {}


def _frozen_loads(script: Script) -> tuple[Call, ...]:
    """What loads them."""
    idle = {id(one.run) for one in script.frozen_passes}
    passes: dict[Call, list[bool]] = {}
    for forward in script.forwards:
        load = forward.facts.load
        if load is not None and forward.in_training_step and not forward.own:
            frozen = all(run.gradients is False or id(run) in idle for run in forward.runs)
            passes.setdefault(load, []).append(frozen)
    trained = {one.model.load for one in script.training}
    return tuple(load for load, frozen in passes.items() if all(frozen) and load not in trained)


def _adapter(script: Script) -> Call | None:
    """The configuration of an adapter, of whatever kind PEFT has; LoRA's first."""
    made = script.calls_to("peft.LoraConfig")
    if not made and (script.calls_to("peft.get_peft_model") or script.method_calls("add_adapter")):
        made = tuple(call for call in script.library_calls("peft") if call.name.endswith("Config"))
    return next(iter(made), None)


def _by_runtime(script: Script, trainer: str) -> dict[str, Any]:
    """What calls of the runtime package change."""
    values: dict[str, Any] = {}
    for effect, names in _RUNTIME:
        if script.calls_to(*(f"memlint_runtime.{name}" for name in names)):
            values.update(effect)
    if values.get("loss") == "liger" and trainer.startswith("trl."):
        values["loss"] = "chunked"
    return values


def _tokens(script: Script) -> dict[str, Any]:
    """The longest that tokenization leaves rows of a training set, where it is a number."""
    limits = [
        effect.tokens
        for dataset in script.datasets
        if dataset.purpose is not Purpose.EVALUATION
        for effect in dataset.effects
        if effect.kind in _LIMITS and effect.tokens
    ]
    if not limits:
        given = [
            tokenization.call.setting("max_length").value
            for tokenization in script.tokenizations
            if tokenization.prepares_training or tokenization.collates_training
        ]
        limits = [value for value in given if isinstance(value, int) and _is_number(value)]
    return {"seq_len": max(limits)} if limits else {}


def _versions(script: Script) -> dict[str, str]:
    target = script.api.target
    return {name: str(target.version(name).version) for name in _LIBRARIES}


def _model(script: Script, facts: ModelFacts) -> dict[str, Any]:
    values: dict[str, Any] = {}
    if isinstance(facts.name, str):
        values["model"] = facts.name
    if facts.load is not None:
        values.update(_load(script, facts.load))
    elif facts.by_name and reaches(_versions(script), TRL_FLOAT32):
        values["weights_dtype"] = "float32"
    return values


def _configured(script: Script) -> dict[str, Any]:
    """A model made from a published configuration, with weights in float32 as torch makes them."""
    for call in script.method_calls("from_pretrained"):
        if call.name.startswith("transformers.") and "Config." in call.name:
            values = _load(script, call)
            if "model" in values:
                return {"model": values["model"], "weights_dtype": "float32"}
    return {}


def _load(script: Script, load: Call) -> dict[str, Any]:
    values: dict[str, Any] = {}
    name = load.setting("pretrained_model_name_or_path")
    if isinstance(name.value, str):
        values["model"] = name.value
    elif isinstance(first := script.python(load.node.args[0]) if load.node.args else None, str):
        values["model"] = first
    for key in ("dtype", "torch_dtype"):
        dtype = _dtype(load.setting(key))
        if dtype:
            values["weights_dtype"] = dtype
    unset = all(load.setting(key).given is False for key in ("dtype", "torch_dtype"))
    plain = load.setting("quantization_config").given is False and not load.has_unknown_keywords
    if unset and plain and not reaches(_versions(script), DTYPE_AUTO):
        values["weights_dtype"] = "float32"
    attention = load.setting("attn_implementation").value
    if attention in _ATTENTION:
        values["attention"] = attention
    quantization = _made(script, load.setting("quantization_config"))
    if quantization is not None:
        values["quantization"] = _quantization(quantization)
    elif load.setting("load_in_4bit").is_value(True):
        values["quantization"] = {"bits": 4, "type": "nf4"}
    elif load.setting("load_in_8bit").is_value(True):
        values["quantization"] = {"bits": 8, "type": "int8"}
    return values


def _made(script: Script, setting: Setting) -> Call | None:
    value = setting.value
    return script.call_at(value.node) if isinstance(value, Object) else None


def _dtype(setting: Setting) -> str | None:
    text = setting.symbol or (setting.value if isinstance(setting.value, str) else "")
    name = str(text).rpartition(".")[2]
    return name if name in _DTYPES else None


def _quantization(call: Call) -> dict[str, Any]:
    values: dict[str, Any] = {}
    if call.setting("load_in_8bit").is_value(True):
        return {"bits": 8, "type": "int8"}
    values["bits"] = 4
    kind = call.setting("bnb_4bit_quant_type")
    # bitsandbytes takes fp4 where nobody chooses.
    values["type"] = kind.value if kind.value in ("nf4", "fp4") else "fp4"
    double = call.setting("bnb_4bit_use_double_quant").value
    if isinstance(double, bool):
        values["double_quant"] = double
    compute = call.setting("bnb_4bit_compute_dtype")
    if name := _dtype(compute):
        values["compute_dtype"] = name
    elif compute.given is False:
        values["compute_dtype"] = "float32"  # transformers' default
    return values


def _lora(call: Call) -> dict[str, Any]:
    values: dict[str, Any] = {}
    rank = call.setting("r")
    if _is_number(rank.value):
        values["r"] = rank.value
    dropout = call.setting("lora_dropout").value
    if isinstance(dropout, (int, float)) and not isinstance(dropout, bool):
        values["dropout"] = dropout
    for key in ("target_modules", "modules_to_save"):
        names = call.setting(key).value
        if isinstance(names, str):
            values[key] = names
        elif isinstance(names, (list, tuple)) and all(isinstance(name, str) for name in names):
            values[key] = list(names)
    return values


def _arguments(config: Config) -> dict[str, Any]:
    """Training arguments: those that are given, and the libraries' own defaults."""
    values: dict[str, Any] = {}
    for key, name in _NUMBERS:
        number = config.effective(name).value
        if _is_number(number):
            values[key] = number
    for name in ("max_length", "max_seq_length"):
        length = config.effective(name).value
        if _is_number(length):
            values["seq_len"] = length
    optimizer = config.settled("optim").value
    if isinstance(optimizer, str):
        values["optimizer"] = optimizer
    packing = config.effective("packing").value
    if isinstance(packing, bool):
        values["packed"] = packing
    grouped = config.effective("group_by_length").is_value(True)
    if grouped or config.effective("train_sampling_strategy").is_value("group_by_length"):
        values["longest_first"] = True
    values.update(_checkpointing(config))
    values.update(_precision(config))
    for name, meant in _SWITCHES:
        if config.settled(name).is_value(True):
            values.update(meant)
    if config.effective("use_vllm").is_value(True):
        share = config.effective("vllm_gpu_memory_utilization").value
        values["generation"] = {
            "vllm": True,
            "vllm_gpu_memory_utilization": share if isinstance(share, float) else 0.3,
        }
    return values


_SWITCHES: tuple[tuple[str, Mapping[str, Any]], ...] = (
    ("use_liger_kernel", {"loss": "liger"}),
    ("activation_offloading", {"offload": "activations"}),
    ("torch_compile", {"compile": True}),
)


def _precision(config: Config) -> dict[str, Any]:
    bf16, fp16 = config.settled("bf16"), config.settled("fp16")
    if bf16.is_value(True):
        return {"compute_dtype": "bfloat16", "autocast": True}
    if fp16.is_value(True):
        return {"compute_dtype": "float16", "autocast": True}
    # Neither: the weights' own dtype.
    return {"autocast": False} if bf16.value is False and fp16.value is False else {}


def _checkpointing(config: Config) -> dict[str, Any]:
    on = config.checkpointing
    if on is None:
        return {}
    if not on:
        return {"checkpointing": "none"}
    for name in ("gradient_checkpointing_kwargs", "activation_checkpointing_kwargs"):
        options = config.setting(name).value
        if isinstance(options, Mapping) and options.get("use_reentrant") is True:
            return {"checkpointing": "reentrant"}
    return {"checkpointing": "full"}


def _loop(script: Script) -> dict[str, Any]:
    """What a hand-written loop says: its optimizer, its checkpointing, its loader's batches."""
    values: dict[str, Any] = {}
    if script.calls_to("torch.optim.AdamW", "torch.optim.Adam"):
        values["optimizer"] = "adamw_torch"
    for name, optimizer in (
        ("bitsandbytes.optim.AdamW8bit", "adamw_8bit"),
        ("bitsandbytes.optim.PagedAdamW8bit", "paged_adamw_8bit"),
        ("torch.optim.SGD", "sgd"),
    ):
        if script.calls_to(name):
            values["optimizer"] = optimizer
    enabled = bool(script.method_calls("gradient_checkpointing_enable"))
    values["checkpointing"] = "full" if enabled else "none"
    mixed = {forward.autocast for one in script.loop_models for forward in one.forwards}
    name = str(next(iter(mixed))).rpartition(".")[2] if len(mixed) == 1 else ""
    if name in _DTYPES:
        values.update(compute_dtype=name, autocast=True)
    elif not script.calls_to(*_MIXES):
        values["autocast"] = False
    for dataset in script.datasets:
        rows = dataset.batch_size.value if dataset.batch_size is not None else None
        if dataset.loader is not None and dataset.purpose is Purpose.TRAINING and _is_number(rows):
            values["micro_batch"] = rows
    return values


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0
