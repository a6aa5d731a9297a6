"""Padding where several samples could share a row.

Source: the data sets of torchtune, which refuse to pack images and pairs of answers; the schemas of
axolotl and LLaMA-Factory.
"""

from __future__ import annotations

from collections.abc import Iterator

from memlint.rule import (
    DEFAULT_LENGTH,
    Edit,
    Finding,
    Level,
    Recipe,
    RecipeKind,
    Script,
    advise,
    can_pack,
    component_takes,
    fix,
    is_on,
    set_key,
    takes_images,
    together,
    trains,
)

_FLASH = ("flash_attention", "flex_attention", "xformers_attention", "s2_attention")


def _torchtune(recipe: Recipe) -> Iterator[Finding]:
    packed, batch = recipe.option("dataset.packed"), recipe.option("batch_size").value
    if not trains(recipe) or not packed.is_value(False) or not isinstance(batch, int):
        return
    if not can_pack(recipe):
        return
    edits = set_key(recipe, "dataset.packed", "True")
    message = "Set `packed: true`"
    if recipe.option("tokenizer.max_seq_len").value is None:
        edits = together(edits, set_key(recipe, "tokenizer.max_seq_len", str(DEFAULT_LENGTH)))
        message += f" and `max_seq_len: {DEFAULT_LENGTH}`, the length of a pack"
    yield Finding(
        packed.span,
        "`packed: false` pads every sample of a batch to the longest one"
        if batch > 1
        else "trains one unpacked sample at a time: short samples leave the GPU idle",
        fix(message, edits, unsafe=True),
        None if batch > 1 else Level.HINT,
    )


def _axolotl(recipe: Recipe) -> Iterator[Finding]:
    if any(recipe.has(key) for key in ("rl", "reward_model", "process_reward_model")):
        return
    if not trains(recipe) or not recipe.has("datasets"):
        return
    keeps_apart = _attends_by_document(recipe)
    edits = set_key(recipe, "sample_packing", "True") if keeps_apart else None
    message = "Set `sample_packing: true`"
    if edits is None:
        message += " with `attn_implementation: flash_attention_2`, which keeps documents apart"
    yield from _padded(recipe, "sample_packing", "micro_batch_size", message, edits)


def _attends_by_document(recipe: Recipe) -> bool:
    """True if attention keeps packed documents apart."""
    implementation = recipe.option("attn_implementation").value
    flash = isinstance(implementation, str) and implementation.startswith(("flash", "flex"))
    return flash or is_on(recipe, *_FLASH)


def _llama_factory(recipe: Recipe) -> Iterator[Finding]:
    if not trains(recipe) or not recipe.option("stage").is_value("sft"):
        return
    if is_on(recipe, "neat_packing"):
        return
    edits = together(set_key(recipe, "packing", "True"), set_key(recipe, "neat_packing", "True"))
    message = "Set `packing: true` and `neat_packing: true`"
    yield from _padded(recipe, "packing", "per_device_train_batch_size", message, edits)


def _padded(
    recipe: Recipe, switch: str, size: str, message: str, edits: tuple[Edit, ...] | None
) -> Iterator[Finding]:
    """A batch of several samples whose ``switch`` for packing is off, or not given."""
    packing, batch = recipe.option(switch), recipe.option(size)
    if takes_images(recipe) or packing.value not in (False, None):
        return
    if isinstance(batch.value, int) and batch.value >= 2:
        yield Finding(
            packing.span if packing.given else batch.span,
            f"pads every sample to the longest of {batch.value}: nothing is packed",
            fix(message, edits, unsafe=True),
        )


def _in_python(script: Script) -> Iterator[Finding]:
    if script.torchtune is None or not _pads(script):
        return
    for call in script.torchtune.component_calls("torchtune.datasets"):
        packed = call.setting("packed")
        if call.has_unknown_keywords or not (packed.is_value(False) or packed.given is False):
            continue
        if component_takes(call.name, "packed") and "multimodal" not in call.name:
            node = packed.node if packed.given else None
            yield Finding(
                script.span(node) if node is not None else call.span,
                "pads every sample of a batch to the longest one: nothing is packed",
                advise(
                    "Set `packed=True` with `padded_collate_packed`, and hand the model the "
                    "batch's `mask` and `input_pos`"
                ),
            )


def _pads(script: Script) -> bool:
    """True if batches of several samples are padded by torchtune's collator."""
    if script.may_use("PackedDataset", "padded_collate_packed"):
        return False
    sizes = [
        dataset.batch_size.value for dataset in script.datasets if dataset.batch_size is not None
    ]
    several = any(type(size) is int and size > 1 for size in sizes)
    return several and any(full.endswith(".padded_collate_sft") for _, _, full in script.imports)


CHECKS = {
    RecipeKind.TORCHTUNE: _torchtune,
    RecipeKind.AXOLOTL: _axolotl,
    RecipeKind.LLAMA_FACTORY: _llama_factory,
}
IN_PYTHON = _in_python
