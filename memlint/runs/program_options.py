"""What the options of recipes mean, a table for each program, read and written.

Sources: the recipes of torchtune, its documentation, "Memory Optimization Overview", its data sets
and ``torchtune.modules.loss``; the optimizers of torchao and bitsandbytes; the schemas of axolotl
and LLaMA-Factory; DeepSpeed's configuration reference; accelerate's documentation, "DeepSpeed".
"""

from collections.abc import Callable, Mapping
from typing import Any

from memlint.recipes.kinds import Kind
from memlint.recipes.recipe import Recipe, names_quantized
from memlint.recipes.recipe_training import (
    DEFAULT_LENGTH,
    attends_flexibly,
    can_pack,
    is_adapter,
    is_on,
    is_sharded,
    takes_images,
)
from memlint.script.call_settings import UNSURE
from memlint.source.record import NamedTuple

PAGED = "bitsandbytes.optim.PagedAdamW8bit"
WHOLE_LOSS = "torch.nn.CrossEntropyLoss"
CHUNKED_LOSS = "torchtune.modules.loss.CEWithChunkedOutputLoss"
# Losses for which the head is asked for the logits of a few tokens at a time.
IN_PIECES = ("LinearCrossEntropy", "ChunkedOutput")
ON_OUTPUT = "an adapter of the output layer makes a product as large as all logits, beside them"
KEPT_BASE = "`{}` keeps the frozen base in 2 bytes a weight, where NF4 takes half a byte"
_SWITCH: Mapping[Any, object] = {True: True, False: False}
_CHECKPOINTING: Mapping[Any, object] = {False: "none", True: "full"}
_BY_FSDP = ("activation_checkpointing", "fsdp_activation_checkpointing")
_ADAM: Mapping[Any, object] = dict.fromkeys(
    ("torch.optim.AdamW", "torch.optim.Adam"), "adamw_torch"
)
_NAMED = ("adamw_torch", "adamw_torch_fused", "adamw_hf")
_STATELESS = ("use_galore", "use_badam", "use_apollo", "use_adam_mini", "use_muon")
# Parameters of torch's Adam that the paged one lacks.
_OF_TORCH = ("fused", "foreach", "capturable", "differentiable", "maximize")
_FLASH = ("flash_attention", "flex_attention", "xformers_attention", "s2_attention")
_QUANTIZES = ("quantization", "model_quantization_config", "fsdp", "fsdp_config")
_PLAIN_BASE = "the frozen base takes 2 bytes a weight, where 4 bits would do"
_NO_LIMIT = "the tokenizer has no `max_seq_len`"
_NEITHER = "trains in float32, with neither bf16 nor fp16"
_OFF = (False, None)
# Tokens of a row whose activations matter beside the weights of a checkpointed model.
_LONG = 16_384


def _no(recipe: Recipe) -> bool:
    return False


class Option(NamedTuple):
    """One option of a program, for both directions.

    key: its path. field: of the record. means: its values in our words, those of an option that is
    not given as None; or a function that tells. said: a clause for its value, whose last part is
    ``{}``. at: the key to point at where it is not given. unsure: True where something else decides
    the field. kept: True where the option is not ours to write. advice: what to do by hand, where
    nothing can be written. adds: what is written with it. more: what the fix says beside it.
    unsafe: to write it changes what is learned, or may stop the run.
    """

    key: str
    field: str
    means: Mapping[Any, object] | Callable[[object], object] = _SWITCH
    said: str = ""
    at: str = ""
    unsure: Callable[[Recipe], bool] = _no
    kept: Callable[[Recipe], bool] = _no
    advice: Callable[[Recipe], str] = lambda recipe: ""
    adds: Callable[[Recipe], Mapping[str, object]] = lambda recipe: {}
    more: Callable[[Recipe], str] = lambda recipe: ""
    unsafe: bool = False

    def read(self, value: object) -> object:
        """Return what a value of the option means; UNSURE where that is not known."""
        if not isinstance(self.means, Mapping):
            return self.means(value)
        for key, meaning in self.means.items():
            if type(key) is type(value) and key == value:
                return meaning
        return UNSURE

    def written(self, value: object) -> object:
        """Return the option's value that means ``value``."""
        if not isinstance(self.means, Mapping):
            return value
        return next(key for key, meaning in self.means.items() if meaning == value)


def _number(value: object) -> object:
    return value if value is None or type(value) is int else UNSURE


def _leave_out(recipe: Recipe) -> str:
    return "Leave them out unless tokens are new, or of a chat template that the base never saw"


_PINNED = Option("dataloader_pin_memory", "pinned", unsafe=True)


def _times(value: object) -> object:
    """A number of times; once where none is given."""
    return 1 if value is None else _number(value)


def _has_deepspeed(recipe: Recipe) -> bool:
    """True if a file of DeepSpeed may say the batch as well, which has to agree."""
    return recipe.has("deepspeed")


def _names(value: object) -> object:
    """Names in a list, or in a text with commas."""
    if isinstance(value, str):
        return tuple(value.replace(" ", "").split(","))
    return tuple(map(str, value)) if isinstance(value, list) else UNSURE


# -- torchtune -------------------------------------------------------------------------------------


def _length_of_pack(recipe: Recipe) -> Mapping[str, object]:
    length = recipe.option("tokenizer.max_seq_len").value
    return {"tokenizer.max_seq_len": DEFAULT_LENGTH} if length is None else {}


def _lengths(recipe: Recipe) -> list[int]:
    """The limits that the tokenizer and the data sets have, in tokens."""
    found = (recipe.option(f"{key}.max_seq_len").value for key in ("tokenizer", "dataset"))
    return [one for one in found if type(one) is int]


def _needs_gradients(recipe: Recipe) -> bool:
    """True if a step needs its gradients at once, or adapters' recipes do not read the option."""
    clips = recipe.option("clip_grad_norm").value is not None
    needed = clips or is_on(recipe, "fsdp_cpu_offload")
    return is_adapter(recipe) or (needed and not is_on(recipe, "optimizer_in_bwd"))


_TORCHTUNE = (
    Option(
        "enable_activation_checkpointing",
        "checkpointing",
        _CHECKPOINTING,
        unsure=lambda recipe: isinstance(recipe.option("ac_mode").value, str),  # some layers are
        kept=lambda recipe: True,  # it is off only where it is written, as a decision
    ),
    Option(
        "enable_activation_offloading",
        "offload",
        {False: "none", True: "activations"},
        # Its recipes refuse it for models with a vision tower.
        unsure=lambda recipe: takes_images(recipe) or max(_lengths(recipe), default=0) < _LONG,
        more=lambda recipe: ": they wait in pinned memory",
    ),
    Option(
        "dtype",
        "weights_dtype",
        {"bf16": "bfloat16", "fp32": "float32"},
        "`dtype` is fp32 for weights, gradients, optimizer states and activations",
        unsafe=True,
    ),
    Option(
        "loss._component_",
        "loss",
        {WHOLE_LOSS: "full_logits", CHUNKED_LOSS: "chunked"},
        "the loss takes the logits of all tokens at once, in fp32",
        kept=lambda recipe: recipe.option("loss").value != {"_component_": WHOLE_LOSS},
        more=lambda recipe: ", which takes them in chunks",
    ),
    Option(
        "optimizer._component_",
        "optimizer",
        {**_ADAM, PAGED: "adamw_8bit"},
        "Adam",
        unsure=is_adapter,
        advice=lambda recipe: (
            "Use `torchao.optim.AdamW8bit`, which shards" if is_sharded(recipe) else ""
        ),
        adds=lambda recipe: dict.fromkeys(f"optimizer.{key}" for key in _OF_TORCH),
        unsafe=True,
    ),
    Option(
        "optimizer_in_bwd",
        "in_backward",
        said="all gradients are kept until the optimizer steps: 2 bytes a weight in bf16",
        unsure=_needs_gradients,
        more=lambda recipe: (
            ""
            if is_on(recipe, "optimizer_in_bwd")
            else ": each weight is stepped as soon as its gradient is there"
        ),
    ),
    Option(
        "optimizer.offload_gradients",
        "offloaded_gradients",
        unsure=lambda recipe: not recipe.component("optimizer").endswith(".CPUOffloadOptimizer"),
        more=lambda recipe: ", or accumulate none",
        unsafe=True,
    ),
    Option("compile", "compile", more=lambda recipe: ": fused operations keep fewer activations"),
    Option("batch_size", "micro_batch", _number),
    Option("gradient_accumulation_steps", "gradient_accumulation", _number),
    Option(
        "tokenizer.max_seq_len",
        "seq_len",
        _number,
        _NO_LIMIT,
        # Packing without a length is refused at the start.
        unsure=lambda recipe: (
            not recipe.component("tokenizer")
            or is_on(recipe, "dataset.packed")
            or bool(_lengths(recipe))
        ),
        kept=takes_images,  # a cut could take an image's token and leave the image
        more=lambda recipe: ", or what your data needs: longer samples are cut",
        unsafe=True,
    ),
    Option(
        "dataset.packed",
        "packed",
        unsure=lambda recipe: (
            type(recipe.option("batch_size").value) is not int or not can_pack(recipe)
        ),
        adds=_length_of_pack,
        more=lambda recipe: ", the length of a pack" if _length_of_pack(recipe) else "",
        unsafe=True,
    ),
    Option(
        "model.apply_lora_to_output",
        "adapted_head",
        said=ON_OUTPUT,
        unsure=lambda recipe: any(one in str(recipe.option("loss").value) for one in IN_PIECES),
        unsafe=True,
    ),
)

# -- axolotl ---------------------------------------------------------------------------------------


def _recomputes_itself(recipe: Recipe) -> bool:
    """True if FSDP's own wrapper, offloading or Unsloth recomputes."""
    by_fsdp = (f"fsdp_config.{key}" for key in _BY_FSDP)
    unsloth = any(key.startswith("unsloth_") for key in recipe.keys)
    return unsloth or is_on(recipe, "activation_offloading", *by_fsdp)


def _decides_checkpointing(recipe: Recipe) -> bool:
    off = recipe.option("gradient_checkpointing").value is False
    return off or any(recipe.has(key) for key in ("fsdp", "fsdp_config", "plugins"))


def _is_not_packable(recipe: Recipe) -> bool:
    """True if axolotl does not pack pairs, images, or a single sample."""
    rows = recipe.option("micro_batch_size").value
    other = any(recipe.has(key) for key in ("rl", "reward_model", "process_reward_model"))
    several = isinstance(rows, int) and rows >= 2
    return other or not several or not recipe.has("datasets") or takes_images(recipe)


def _mixes_documents(recipe: Recipe) -> bool:
    """True if attention may look across packed documents."""
    implementation = recipe.option("attn_implementation").value
    flash = isinstance(implementation, str) and implementation.startswith(("flash", "flex"))
    return not flash and not is_on(recipe, *_FLASH)


def _narrow_by_axolotl(recipe: Recipe) -> bool:
    scaled = recipe.option("fp16").value not in _OFF
    return scaled or is_on(recipe, "fp8", "bfloat16", "float16")


def _quantized_by_axolotl(recipe: Recipe) -> bool:
    if is_on(recipe, "load_in_8bit", "load_in_4bit", "gptq"):
        return True
    named = names_quantized(recipe.option("base_model").value)
    return named or any(recipe.has(key) for key in _QUANTIZES)


def _has_small_states(recipe: Recipe) -> bool:
    """True if Adam's states are no float32 numbers of all weights in one process."""
    neither = recipe.option("bf16").value is False and recipe.option("fp16").value in _OFF
    in_fp32 = is_on(recipe, "float32") or neither
    return is_adapter(recipe) or is_sharded(recipe) or not in_fp32


def _generates_elsewhere(recipe: Recipe) -> bool:
    """True unless vLLM definitely shares the GPUs that train."""
    return not (
        is_on(recipe, "trl.use_vllm") and recipe.option("trl.vllm_mode").is_value("colocate")
    )


_AXOLOTL = (
    Option(
        "gradient_checkpointing",
        "checkpointing",
        {**_CHECKPOINTING, None: "none"},
        "activation checkpointing is off",
        unsure=_recomputes_itself,
        kept=_decides_checkpointing,
    ),
    Option(
        "gradient_checkpointing_kwargs.use_reentrant",
        "reentrant",
        said="checkpointing is reentrant",
        # FlexAttention needs it: its saved tensors change between the two passes.
        unsure=lambda recipe: (
            not is_on(recipe, "gradient_checkpointing") or attends_flexibly(recipe)
        ),
        kept=is_sharded,
    ),
    Option(
        "attn_implementation",
        "attention",
        {"sdpa": "sdpa", "eager": "eager"},
        kept=lambda recipe: recipe.has("plugins"),  # their kernels may need the eager path
        unsafe=True,
    ),
    Option(
        "eager_attention",
        "attention",
        {True: "eager"},
        advice=lambda recipe: "Set `sdp_attention: true` instead",
    ),
    Option(
        "bf16",
        "compute_dtype",
        {"auto": "bfloat16", False: "float32"},
        _NEITHER,
        unsure=_narrow_by_axolotl,
        unsafe=True,
    ),
    Option(
        "optimizer",
        "optimizer",
        {"adamw_bnb_8bit": "adamw_8bit", **dict.fromkeys((*_NAMED, "adamw_apex_fused"), _NAMED[0])},
        "Adam",
        unsure=_has_small_states,
        unsafe=True,
    ),
    Option("micro_batch_size", "micro_batch", _number, kept=_has_deepspeed),
    Option("gradient_accumulation_steps", "gradient_accumulation", _times, unsafe=True),
    Option(
        "sample_packing",
        "packed",
        {**_SWITCH, None: False},
        at="micro_batch_size",
        unsure=_is_not_packable,
        kept=_mixes_documents,
        more=lambda recipe: (
            " with `attn_implementation: flash_attention_2`, which keeps documents apart"
            if _mixes_documents(recipe)
            else ""
        ),
        unsafe=True,
    ),
    Option(
        "adapter",
        "quantization",
        {"lora": None},
        _PLAIN_BASE,
        unsure=_quantized_by_axolotl,
        advice=lambda recipe: "Set `adapter: qlora` and `load_in_4bit: true`",
    ),
    Option(
        "lora_modules_to_save",
        "modules_to_save",
        _names,
        unsure=lambda recipe: not is_adapter(recipe),
        advice=_leave_out,
    ),
    _PINNED,
    Option(
        "vllm.gpu_memory_utilization",
        "vllm_share",
        lambda value: value if isinstance(value, float) else UNSURE,
        unsure=_generates_elsewhere,
        unsafe=True,
    ),
    Option(
        "trl.vllm_enable_sleep_mode",
        "vllm_sleep",
        {**_SWITCH, None: False},
        at="trl.use_vllm",
        unsure=_generates_elsewhere,
        unsafe=True,
    ),
)

# -- LLaMA-Factory ---------------------------------------------------------------------------------


def _is_tuned(recipe: Recipe, how: str) -> bool:
    return recipe.option("finetuning_type").is_value(how)


def _narrow_by_factory(recipe: Recipe) -> bool:
    scaled = recipe.option("fp16").value not in _OFF or is_on(recipe, "pure_bf16", "fp8")
    return scaled or not _is_tuned(recipe, "full")


def _quantized_by_factory(recipe: Recipe) -> bool:
    named = names_quantized(recipe.option("model_name_or_path").value)
    other = recipe.has("pissa_init") or is_on(recipe, "use_kt")
    return named or other or not _is_tuned(recipe, "lora") or is_sharded(recipe)


def _is_not_padded(recipe: Recipe) -> bool:
    rows = recipe.option("per_device_train_batch_size").value
    several = isinstance(rows, int) and rows >= 2
    text = recipe.option("stage").is_value("sft") and not takes_images(recipe)
    return not several or not text or is_on(recipe, "neat_packing")


_LLAMA_FACTORY = (
    Option(
        # It checkpoints unless it is told not to.
        "disable_gradient_checkpointing",
        "checkpointing",
        {None: "full", True: "none", False: "full"},
        "activation checkpointing is disabled",
        advice=lambda recipe: "Remove `disable_gradient_checkpointing`",
    ),
    Option("use_reentrant_gc", "reentrant", said="checkpointing is reentrant"),
    Option("flash_attn", "attention", {"sdpa": "sdpa", "disabled": "eager"}),
    Option(
        "bf16",
        "compute_dtype",
        {True: "bfloat16", False: "float32", None: "float32"},
        _NEITHER,
        at="model_name_or_path",
        unsure=_narrow_by_factory,
        unsafe=True,
    ),
    Option(
        "optim",
        "optimizer",
        {"adamw_8bit": "adamw_8bit", **dict.fromkeys((None, *_NAMED), _NAMED[0])},
        "Adam",
        at="finetuning_type",
        unsure=lambda recipe: (
            not _is_tuned(recipe, "full")
            or is_on(recipe, "pure_bf16", *_STATELESS)
            or is_sharded(recipe)
        ),
        unsafe=True,
    ),
    Option("per_device_train_batch_size", "micro_batch", _number, kept=_has_deepspeed),
    Option("gradient_accumulation_steps", "gradient_accumulation", _times, unsafe=True),
    Option(
        "packing",
        "packed",
        {**_SWITCH, None: False},
        at="per_device_train_batch_size",
        unsure=_is_not_padded,
        adds=lambda recipe: {"neat_packing": True},
        unsafe=True,
    ),
    Option(
        "quantization_bit",
        "quantization",
        {None: None, 4: "nf4"},
        _PLAIN_BASE,
        at="finetuning_type",
        unsure=_quantized_by_factory,
        unsafe=True,
    ),
    Option("additional_target", "modules_to_save", _names, advice=_leave_out),
    _PINNED,
)

# What DeepSpeed is told for training alone; inference wants its file as well.
_OF_TRAINING = (
    *("zero_optimization", "optimizer", "scheduler", "train_batch_size"),
    *("gradient_accumulation_steps", "gradient_clipping"),
)

OPTIONS: Mapping[Kind, tuple[Option, ...]] = {
    Kind.TORCHTUNE: _TORCHTUNE,
    Kind.AXOLOTL: _AXOLOTL,
    Kind.LLAMA_FACTORY: _LLAMA_FACTORY,
    Kind.DEEPSPEED: (
        Option(
            "bf16.enabled",
            "compute_dtype",
            {True: "bfloat16", False: "float32"},
            _NEITHER,
            unsure=lambda recipe: (
                not recipe.option("fp16.enabled").is_value(False)
                or not any(map(recipe.has, _OF_TRAINING))
                or (recipe.reader is not None and recipe.reader.computes)
            ),
            unsafe=True,
        ),
    ),
    Kind.ACCELERATE: (
        Option(
            "deepspeed_config.zero3_init_flag",
            "sharded_load",
            unsure=lambda recipe: not recipe.option("deepspeed_config.zero_stage").is_value(3),
            unsafe=True,
        ),
    ),
}
