"""What wastes memory in a recipe of axolotl.

Source: axolotl's configuration reference (``axolotl.utils.schemas``), its defaults and what its
validators refuse or warn of.
"""

from __future__ import annotations

from collections.abc import Iterator

from memlint.rule import Finding, Level, Recipe, advise, fix, names_quantized, set_key

_ADAM = ("adamw_torch", "adamw_torch_fused", "adamw_hf", "adamw_apex_fused")
_FLASH = ("flash_attention", "flex_attention", "xformers_attention", "s2_attention")


def _is_on(recipe: Recipe, *paths: str) -> bool:
    return any(recipe.option(path).is_value(True) for path in paths)


def _is_text(recipe: Recipe) -> bool:
    return not recipe.has("processor_type") and not _is_on(recipe, "is_multimodal")


def _attends_by_document(recipe: Recipe) -> bool:
    """Whether attention keeps packed documents apart."""
    implementation = recipe.option("attn_implementation").value
    flash = isinstance(implementation, str) and implementation.startswith(("flash", "flex"))
    return flash or _is_on(recipe, *_FLASH)


def unpacked(recipe: Recipe) -> Iterator[Finding]:
    packing, batch = recipe.option("sample_packing"), recipe.option("micro_batch_size")
    if recipe.has("rl") or not recipe.has("datasets") or not _is_text(recipe):
        return
    if packing.given and packing.value not in (False, None):
        return
    if recipe.has("reward_model") or recipe.has("process_reward_model") or _is_on(recipe, "mm"):
        return
    if not isinstance(batch.value, int) or batch.value < 2:
        return
    edits = set_key(recipe, "sample_packing", "True") if _attends_by_document(recipe) else None
    message = "Set `sample_packing: true`"
    if edits is None:
        message += " with `attn_implementation: flash_attention_2`, which keeps documents apart"
    yield Finding(
        packing.span if packing.given else batch.span,
        f"pads every sample to the longest of {batch.value}: nothing is packed",
        fix(message, edits, unsafe=True),
    )


def unchecked_activations(recipe: Recipe) -> Iterator[Finding]:
    option = recipe.option("gradient_checkpointing")
    if option.value not in (False, None) or _is_on(recipe, "activation_offloading"):
        return
    if recipe.has("fsdp_config.activation_checkpointing") or _is_unsloth(recipe):
        return
    edits = None
    # FSDP checkpoints by its own wrapper, and plugins may train elsewhere.
    others = ("fsdp", "fsdp_config", "plugins")
    if option.value is None and not any(recipe.has(key) for key in others):
        edits = set_key(recipe, "gradient_checkpointing", "True")
    yield Finding(
        option.span,
        "activation checkpointing is off: the activations of all layers are kept until backward",
        fix("Set `gradient_checkpointing: true`", edits),
    )


def _is_unsloth(recipe: Recipe) -> bool:
    return any(key.startswith("unsloth_") for key in recipe.keys)


def reentrant(recipe: Recipe) -> Iterator[Finding]:
    path = "gradient_checkpointing_kwargs.use_reentrant"
    option = recipe.option(path)
    if option.is_value(True) and recipe.option("gradient_checkpointing").is_value(True):
        distributed = recipe.has("deepspeed") or recipe.has("fsdp") or recipe.has("fsdp_config")
        yield Finding(
            option.span,
            "checkpointing is reentrant: one layer's output more is held at the peak",
            fix(
                "Set `use_reentrant: false`",
                None if distributed else set_key(recipe, path, "False"),
            ),
        )


def eager_attention(recipe: Recipe) -> Iterator[Finding]:
    by_name = recipe.option("attn_implementation")
    by_switch = recipe.option("eager_attention")
    message = "eager attention keeps a score for every pair of tokens and head"
    if by_name.is_value("eager"):
        # Plugins bring kernels of their own, which may need the eager path.
        edits = None if recipe.has("plugins") else set_key(recipe, "attn_implementation", '"sdpa"')
        proposed = fix("Set `attn_implementation: sdpa`", edits, unsafe=True)
        yield Finding(by_name.span, message, proposed)
    elif by_switch.is_value(True):
        yield Finding(by_switch.span, message, advise("Set `sdp_attention: true` instead"))


def full_precision(recipe: Recipe) -> Iterator[Finding]:
    bf16, fp16 = recipe.option("bf16"), recipe.option("fp16")
    if bf16.value is not False or fp16.value not in (False, None):
        return
    if _is_on(recipe, "fp8", "bfloat16", "float16") or not recipe.has("base_model"):
        return
    yield Finding(
        bf16.span,
        "trains in float32, with neither bf16 nor fp16: every activation takes 4 bytes where 2 "
        "would do",
        fix("Set `bf16: auto`", set_key(recipe, "bf16", '"auto"'), unsafe=True),
    )


def fp32_optimizer_states(recipe: Recipe) -> Iterator[Finding]:
    option = recipe.option("optimizer")
    weights_fp32 = _is_on(recipe, "float32") or (
        recipe.option("bf16").value is False and recipe.option("fp16").value in (False, None)
    )
    if recipe.option("adapter").value or option.value not in _ADAM or not weights_fp32:
        return
    if recipe.has("deepspeed") or recipe.has("fsdp") or recipe.has("fsdp_config"):
        return
    yield Finding(
        option.span,
        "Adam keeps two fp32 states a weight: 8 bytes, where 8-bit states take 2",
        fix(
            "Set `optimizer: adamw_bnb_8bit`",
            set_key(recipe, "optimizer", '"adamw_bnb_8bit"'),
            unsafe=True,
        ),
    )


def unquantized_base(recipe: Recipe) -> Iterator[Finding]:
    option = recipe.option("adapter")
    if not option.is_value("lora") or _is_on(recipe, "load_in_8bit", "load_in_4bit", "gptq"):
        return
    if recipe.has("fsdp") or recipe.has("fsdp_config") or recipe.has("quantization"):
        return
    if recipe.has("model_quantization_config") or names_quantized(
        recipe.option("base_model").value
    ):
        return
    yield Finding(
        option.span,
        "the frozen base takes 2 bytes a weight, where 4 bits would do",
        advise("Set `adapter: qlora` and `load_in_4bit: true`"),
        Level.HINT,
    )


def trained_embeddings(recipe: Recipe) -> Iterator[Finding]:
    option = recipe.option("lora_modules_to_save")
    saved = option.value if isinstance(option.value, list) else []
    if recipe.option("adapter").value and {"embed_tokens", "lm_head"} & {*map(str, saved)}:
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
