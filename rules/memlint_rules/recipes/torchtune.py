"""What wastes memory in a recipe of torchtune.

torchtune writes every component out: a recipe names its model builder, loss, optimizer and data
set, and switches for checkpointing, offloading, compilation and the optimizer step in backward.
Source: torchtune documentation, "Memory Optimization Overview"; the recipes of 0.6 and 0.7, which
refuse the combinations named here.
"""

from __future__ import annotations

from collections.abc import Iterator

from memlint.rule import (
    Finding,
    Level,
    Recipe,
    advise,
    component_takes,
    fix,
    remove_key,
    set_key,
    together,
)

_CHECKPOINTING = "enable_activation_checkpointing"
_OFFLOADING = "enable_activation_offloading"
_ADAM = ("torch.optim.AdamW", "torch.optim.Adam")
_LENGTH = 2048
# What only a recipe that shards over several devices has.
_DISTRIBUTED = (
    "fsdp_cpu_offload", "fsdp_reshard_after_forward", "custom_sharded_layers",
    "tensor_parallel_dim", "data_parallel_shard_dim", "data_parallel_replicate_dim",
)  # fmt: skip


def _trains(recipe: Recipe) -> bool:
    return recipe.has("optimizer") and recipe.has("model") and not recipe.is_off_cuda


def _is_adapter(recipe: Recipe) -> bool:
    builder = recipe.component("model").rpartition(".")[2]
    if not builder and recipe.name:
        return "lora" in recipe.name
    return builder.startswith(("lora_", "qlora_", "dora_", "qdora_")) or "_lora_" in builder


def _is_distributed(recipe: Recipe) -> bool:
    if recipe.name:
        return "distributed" in recipe.name
    return any(recipe.has(key) for key in _DISTRIBUTED)


def unbounded_length(recipe: Recipe) -> Iterator[Finding]:
    length = recipe.option("tokenizer.max_seq_len")
    if not _trains(recipe) or not recipe.component("tokenizer") or length.value is not None:
        return
    if recipe.option("dataset.packed").is_value(True):
        return  # refused at the start
    yield Finding(
        length.span,
        "the tokenizer has no `max_seq_len`: the longest sample decides the peak",
        fix(
            f"Set `max_seq_len: {_LENGTH}`, or what your data needs: longer samples are cut",
            set_key(recipe, "tokenizer.max_seq_len", str(_LENGTH)),
            unsafe=True,
        ),
    )


def unpacked(recipe: Recipe) -> Iterator[Finding]:
    packed, batch = recipe.option("dataset.packed"), recipe.option("batch_size").value
    if not _trains(recipe) or not packed.is_value(False) or not isinstance(batch, int):
        return
    if "multimodal" in recipe.component("dataset"):
        return
    edits = set_key(recipe, "dataset.packed", "True")
    message = "Set `packed: true`"
    if recipe.option("tokenizer.max_seq_len").value is None:
        edits = together(edits, set_key(recipe, "tokenizer.max_seq_len", str(_LENGTH)))
        message += f" and `max_seq_len: {_LENGTH}`, the length of a pack"
    yield Finding(
        packed.span,
        "`packed: false` pads every sample of a batch to the longest one"
        if batch > 1
        else "trains one unpacked sample at a time: short samples leave the GPU idle",
        fix(message, edits, unsafe=True),
        None if batch > 1 else Level.HINT,
    )


def unchecked_activations(recipe: Recipe) -> Iterator[Finding]:
    option = recipe.option(_CHECKPOINTING)
    if _trains(recipe) and option.is_value(False):
        yield Finding(
            option.span,
            f"`{_CHECKPOINTING}` is off: the activations of all layers are kept until backward",
            fix(f"Set `{_CHECKPOINTING}: true`", set_key(recipe, _CHECKPOINTING, "True")),
        )


def resident_activations(recipe: Recipe) -> Iterator[Finding]:
    option = recipe.option(_OFFLOADING)
    if (
        _trains(recipe)
        and option.is_value(False)
        and recipe.option(_CHECKPOINTING).is_value(True)
        and "vision" not in recipe.component("model")
    ):
        yield Finding(
            option.span,
            "the inputs of checkpointed layers stay on the GPU until backward",
            fix(
                f"Set `{_OFFLOADING}: true`: they wait in pinned memory",
                set_key(recipe, _OFFLOADING, "True"),
            ),
        )


def offloading_alone(recipe: Recipe) -> Iterator[Finding]:
    option = recipe.option(_OFFLOADING)
    checkpointing = recipe.option(_CHECKPOINTING)
    off = checkpointing.is_value(False) or not checkpointing.given
    if _trains(recipe) and option.is_value(True) and off:
        yield Finding(
            option.span,
            f"torchtune refuses `{_OFFLOADING}` without `{_CHECKPOINTING}`",
            fix(f"Set `{_CHECKPOINTING}: true`", set_key(recipe, _CHECKPOINTING, "True")),
        )
    in_backward = recipe.option("optimizer_in_bwd")
    clip = recipe.option("clip_grad_norm")
    if in_backward.is_value(True) and isinstance(clip.value, int | float | str):
        yield Finding(
            clip.span,
            "torchtune refuses `clip_grad_norm` beside `optimizer_in_bwd`: no step sees all "
            "gradients",
            advise("Set `clip_grad_norm: null`, or `optimizer_in_bwd: false`"),
        )


def fp32_weights(recipe: Recipe) -> Iterator[Finding]:
    option = recipe.option("dtype")
    if _trains(recipe) and option.is_value("fp32"):
        yield Finding(
            option.span,
            "`dtype: fp32` keeps weights, gradients, optimizer states and activations in 4 bytes "
            "where bf16 takes 2",
            fix("Set `dtype: bf16`", set_key(recipe, "dtype", '"bf16"'), unsafe=True),
        )


def fp32_optimizer_states(recipe: Recipe) -> Iterator[Finding]:
    if not _trains(recipe) or _is_adapter(recipe) or recipe.component("optimizer") not in _ADAM:
        return
    option = recipe.option("optimizer._component_")
    in_fp32 = recipe.option("dtype").is_value("fp32")
    message = "Adam keeps two fp32 states a weight: 8 bytes, where 8-bit states take 2"
    if not in_fp32:
        message = "Adam keeps two bf16 states a weight: 4 bytes, where 8-bit states take 2"
    level = None if in_fp32 else Level.HINT
    if _is_distributed(recipe):
        advice = "Use `torchao.optim.AdamW8bit`, which shards"
        yield Finding(option.span, message, advise(advice), level)
        return
    component = "bitsandbytes.optim.PagedAdamW8bit"
    edits = set_key(recipe, "optimizer._component_", repr(component))
    for key in ("fused", "foreach", "capturable", "differentiable", "maximize"):
        edits = together(edits, remove_key(recipe, f"optimizer.{key}"))
    proposed = fix(f"Use `{component}`", edits, unsafe=True)
    yield Finding(option.span, message, proposed, level)


def mismatched_micro_batch(recipe: Recipe) -> Iterator[Finding]:
    batch = recipe.option("batch_size")
    steps = recipe.option("gradient_accumulation_steps")
    if not _trains(recipe) or not isinstance(batch.value, int) or batch.value < 16:
        return
    if not steps.is_value(1) or recipe.option("optimizer_in_bwd").is_value(True):
        return
    micro = next((one for one in (4, 3, 2) if batch.value % one == 0), 1)
    count = batch.value // micro
    edits = together(
        set_key(recipe, "batch_size", str(micro)),
        set_key(recipe, "gradient_accumulation_steps", str(count)),
    )
    yield Finding(
        batch.span,
        f"the activations of {batch.value} samples are on the GPU at once: accumulating gradients "
        "over smaller batches learns the same",
        fix(f"Set `batch_size: {micro}` and `gradient_accumulation_steps: {count}`", edits),
        Level.HINT,
    )


def resident_gradients(recipe: Recipe) -> Iterator[Finding]:
    option = recipe.option("optimizer_in_bwd")
    if (
        _trains(recipe)
        and option.is_value(False)
        and not _is_adapter(recipe)
        and recipe.option("gradient_accumulation_steps").is_value(1)
        and recipe.option("clip_grad_norm").value is None
    ):
        yield Finding(
            option.span,
            "all gradients are kept until the optimizer steps: 2 bytes a weight in bf16",
            fix(
                "Set `optimizer_in_bwd: true`: each weight is stepped as soon as its gradient is "
                "there",
                set_key(recipe, "optimizer_in_bwd", "True"),
            ),
            Level.HINT,
        )


def accumulated_fused_step(recipe: Recipe) -> Iterator[Finding]:
    option = recipe.option("optimizer_in_bwd")
    steps = recipe.option("gradient_accumulation_steps").value
    if option.is_value(True) and isinstance(steps, int) and steps > 1:
        yield Finding(
            option.span,
            f"torchtune refuses `optimizer_in_bwd` with {steps} accumulated batches: each batch "
            "would step",
            fix("Set `optimizer_in_bwd: false`", set_key(recipe, "optimizer_in_bwd", "False")),
        )


def full_logits_loss(recipe: Recipe) -> Iterator[Finding]:
    option = recipe.option("loss._component_")
    if not _trains(recipe) or recipe.component("loss") != "torch.nn.CrossEntropyLoss":
        return
    component = "torchtune.modules.loss.CEWithChunkedOutputLoss"
    alone = recipe.option("loss").value == {"_component_": "torch.nn.CrossEntropyLoss"}
    edits = set_key(recipe, "loss._component_", repr(component)) if alone else None
    yield Finding(
        option.span,
        "the loss takes the logits of all tokens at once, in fp32: as wide as the vocabulary",
        fix(f"Use `{component}`, which takes them in chunks", edits),
    )


def full_fine_tune(recipe: Recipe) -> Iterator[Finding]:
    package, _, builder = recipe.component("model").rpartition(".")
    if not package.startswith("torchtune.models.") or _is_adapter(recipe):
        return
    if _trains(recipe) and component_takes(f"{package}.lora_{builder}"):
        yield Finding(
            recipe.option("model._component_").span,
            f"`{builder}` trains all weights: their gradients and optimizer states with them",
            advise(f"Train adapters with `{package}.lora_{builder}` and a `lora_` recipe"),
            Level.HINT,
        )


def unquantized_base(recipe: Recipe) -> Iterator[Finding]:
    package, _, builder = recipe.component("model").rpartition(".")
    if not _trains(recipe) or not builder.startswith("lora_") or _is_distributed(recipe):
        return
    if recipe.has("quantizer") or recipe.option("model.quantize_base").is_value(True):
        return
    component = f"{package}.q{builder}"
    if component_takes(component):
        edits = set_key(recipe, "model._component_", repr(component))
        proposed = fix(f"Use `{component}`", edits, unsafe=True)
    elif component_takes(f"{package}.{builder}", "quantize_base"):
        edits = set_key(recipe, "model.quantize_base", "True")
        proposed = fix("Set `quantize_base: true`", edits, unsafe=True)
    else:
        return
    yield Finding(
        recipe.option("model._component_").span,
        f"`{builder}` keeps the frozen base in 2 bytes a weight, where NF4 takes half a byte",
        proposed,
        Level.HINT,
    )


def trained_output_layer(recipe: Recipe) -> Iterator[Finding]:
    option = recipe.option("model.apply_lora_to_output")
    if _trains(recipe) and option.is_value(True):
        yield Finding(
            option.span,
            "an adapter of the output layer keeps the loss from taking the logits in chunks "
            "cheaply, and its activations are as wide as the vocabulary",
            fix(
                "Set `apply_lora_to_output: false`",
                set_key(recipe, "model.apply_lora_to_output", "False"),
                unsafe=True,
            ),
            Level.HINT,
        )


def uncompiled(recipe: Recipe) -> Iterator[Finding]:
    option = recipe.option("compile")
    if _trains(recipe) and option.is_value(False):
        yield Finding(
            option.span,
            "the model and the loss are not compiled: every operation keeps its own result",
            fix(
                "Set `compile: true`: fused operations keep fewer activations",
                set_key(recipe, "compile", "True"),
            ),
            Level.HINT,
        )


CHECKS = {
    "MEM101": unbounded_length,
    "MEM103": unpacked,
    "MEM201": full_logits_loss,
    "MEM301": unchecked_activations,
    "MEM305": resident_activations,
    "MEM401": fp32_weights,
    "MEM406": full_fine_tune,
    "MEM407": unquantized_base,
    "MEM411": trained_output_layer,
    "MEM501": fp32_optimizer_states,
    "MEM502": mismatched_micro_batch,
    "MEM504": resident_gradients,
    "MEM505": accumulated_fused_step,
    "MEM804": uncompiled,
    "MEM903": offloading_alone,
}
