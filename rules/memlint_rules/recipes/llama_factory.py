"""What wastes memory in a recipe of LLaMA-Factory.

Its keys are ``TrainingArguments`` of transformers beside its own: checkpointing is on unless
``disable_gradient_checkpointing``, and a full fine-tune keeps its weights in fp32 unless
``pure_bf16``. Source: ``llamafactory.hparams`` and ``llamafactory.model.adapter``.
"""

from __future__ import annotations

from collections.abc import Iterator

from memlint.rule import Finding, Level, Recipe, advise, fix, names_quantized, set_key, together

_ADAM = (None, "adamw_torch", "adamw_torch_fused", "adamw_hf")
_STATELESS = ("use_galore", "use_badam", "use_apollo", "use_adam_mini", "use_muon")


def _trains(recipe: Recipe) -> bool:
    return recipe.option("do_train").is_value(True) and not _is_on(recipe, "use_unsloth")


def _is_on(recipe: Recipe, *paths: str) -> bool:
    return any(recipe.option(path).is_value(True) for path in paths)


def _is_vision(recipe: Recipe) -> bool:
    return any(recipe.has(key) for key in ("image_max_pixels", "video_max_pixels", "media_dir"))


def unpacked(recipe: Recipe) -> Iterator[Finding]:
    packing, batch = recipe.option("packing"), recipe.option("per_device_train_batch_size")
    if not _trains(recipe) or not recipe.option("stage").is_value("sft") or _is_vision(recipe):
        return
    if _is_on(recipe, "packing", "neat_packing") or (packing.given and packing.value is not False):
        return
    if not isinstance(batch.value, int) or batch.value < 2:
        return
    edits = together(set_key(recipe, "packing", "True"), set_key(recipe, "neat_packing", "True"))
    yield Finding(
        packing.span if packing.given else batch.span,
        f"pads every sample to the longest of {batch.value}: nothing is packed",
        fix("Set `packing: true` and `neat_packing: true`", edits, unsafe=True),
    )


def unchecked_activations(recipe: Recipe) -> Iterator[Finding]:
    option = recipe.option("disable_gradient_checkpointing")
    if _trains(recipe) and option.is_value(True):
        yield Finding(
            option.span,
            "activation checkpointing is disabled: the activations of all layers are kept until "
            "backward",
            advise("Remove `disable_gradient_checkpointing`"),
        )


def reentrant(recipe: Recipe) -> Iterator[Finding]:
    option = recipe.option("use_reentrant_gc")
    if _trains(recipe) and option.is_value(True):
        yield Finding(
            option.span,
            "checkpointing is reentrant: one layer's output more is held at the peak",
            fix("Set `use_reentrant_gc: false`", set_key(recipe, "use_reentrant_gc", "False")),
        )


def eager_attention(recipe: Recipe) -> Iterator[Finding]:
    option = recipe.option("flash_attn")
    if _trains(recipe) and option.is_value("disabled"):
        yield Finding(
            option.span,
            "eager attention keeps a score for every pair of tokens and head",
            fix("Set `flash_attn: sdpa`", set_key(recipe, "flash_attn", '"sdpa"')),
        )


def full_precision(recipe: Recipe) -> Iterator[Finding]:
    bf16, fp16 = recipe.option("bf16"), recipe.option("fp16")
    if not _trains(recipe) or _is_on(recipe, "pure_bf16", "fp8"):
        return
    if not recipe.option("finetuning_type").is_value("full"):
        return  # the frozen base keeps its checkpoint's dtype
    if bf16.value not in (False, None) or fp16.value not in (False, None):
        return
    yield Finding(
        bf16.span if bf16.given else recipe.option("model_name_or_path").span,
        "trains in float32, with neither bf16 nor fp16: every activation takes 4 bytes where 2 "
        "would do",
        fix("Set `bf16: true`", set_key(recipe, "bf16", "True"), unsafe=True),
    )


def fp32_optimizer_states(recipe: Recipe) -> Iterator[Finding]:
    tuning, optimizer = recipe.option("finetuning_type"), recipe.option("optim")
    if not _trains(recipe) or not tuning.is_value("full") or optimizer.value not in _ADAM:
        return
    if _is_on(recipe, "pure_bf16", *_STATELESS) or recipe.has("deepspeed") or recipe.has("fsdp"):
        return
    yield Finding(
        optimizer.span if optimizer.given else tuning.span,
        "Adam keeps two fp32 states a weight: 8 bytes, where 8-bit states take 2",
        fix("Set `optim: adamw_8bit`", set_key(recipe, "optim", '"adamw_8bit"'), unsafe=True),
    )


def unquantized_base(recipe: Recipe) -> Iterator[Finding]:
    tuning = recipe.option("finetuning_type")
    if not _trains(recipe) or not tuning.is_value("lora") or recipe.has("quantization_bit"):
        return
    if recipe.has("deepspeed") or recipe.has("fsdp") or recipe.has("pissa_init"):
        return
    if names_quantized(recipe.option("model_name_or_path").value):
        return
    yield Finding(
        tuning.span,
        "the frozen base takes 2 bytes a weight, where 4 bits would do",
        fix("Set `quantization_bit: 4`", set_key(recipe, "quantization_bit", "4"), unsafe=True),
        Level.HINT,
    )


def trained_embeddings(recipe: Recipe) -> Iterator[Finding]:
    option = recipe.option("additional_target")
    names = str(option.value).replace(" ", "").split(",") if option.given else []
    if _trains(recipe) and {"embed_tokens", "lm_head"} & set(names):
        yield Finding(
            option.span,
            "embeddings and output layer are trained as full copies, with gradients and optimizer "
            "states as wide as the vocabulary",
            advise("Leave them out unless new tokens must be learned"),
            Level.HINT,
        )


CHECKS = {
    "MEM103": unpacked,
    "MEM301": unchecked_activations,
    "MEM303": reentrant,
    "MEM304": eager_attention,
    "MEM402": full_precision,
    "MEM407": unquantized_base,
    "MEM411": trained_embeddings,
    "MEM501": fp32_optimizer_states,
}
