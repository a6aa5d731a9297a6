"""What a recipe trains, in the same words for all programs.

Each program says it with keys of its own: torchtune by components, axolotl and LLaMA-Factory by
switches. What is asked here is what checks of several faults, or of several programs, need.
Source: the recipes and the configuration schemas of the three programs.
"""

from memlint.recipes.keys import component_takes
from memlint.recipes.kinds import Kind
from memlint.recipes.recipe import UNKNOWN, Recipe
from memlint.source.patterns import lazy_pattern

# What only a recipe of torchtune that shards over several devices has.
_SHARDING = (
    "fsdp_cpu_offload", "fsdp_reshard_after_forward", "custom_sharded_layers",
    "tensor_parallel_dim", "data_parallel_shard_dim", "data_parallel_replicate_dim",
)  # fmt: skip
_SEVERAL_GPUS = lazy_pattern(r"nproc_per_node|\w_distributed\b")
# Plugins of axolotl that hand the data to a service, which trains.
_REMOTE = ("hatchery",)
_ADAPTERS = ("lora_", "qlora_", "dora_", "qdora_")
# Recipes of torchtune whose data sets cannot be packed.
_PAIRS_OR_PROMPTS = ("dpo", "ppo", "grpo")
_IMAGES = {
    Kind.AXOLOTL: ("processor_type",),
    Kind.LLAMA_FACTORY: ("image_max_pixels", "video_max_pixels", "media_dir"),
}
# Models of LLaMA-Factory that see, by their names and those of their templates.
_SEEING = lazy_pattern(
    r"(?i)vision|mllama|llava|gemma_?3\b|pixtral|[-_]vl\b|vl[-_\d]|omni|minicpm_[ov]"
)
# What a pack or a row may hold where a recipe names no length.
DEFAULT_LENGTH = 2048
_TEXT_COLLATOR = "torchtune.data.padded_collate_sft"


def is_on(recipe: Recipe, *paths: str) -> bool:
    """True if one of the switches is definitely on."""
    return any(recipe.option(path).is_value(True) for path in paths)


def trains(recipe: Recipe) -> bool:
    """True if the recipe trains on GPUs with layers of the program's own."""
    match recipe.kind:
        case Kind.TORCHTUNE:
            return recipe.has("optimizer") and recipe.has("model") and not recipe.is_off_cuda
        case Kind.LLAMA_FACTORY:
            others = any("model_parallel_size" in key for key in recipe.keys)
            return is_on(recipe, "do_train") and not (is_on(recipe, "use_unsloth") or others)
        case Kind.AXOLOTL:
            plugins = recipe.option("plugins").value
            return recipe.has("base_model") and not any(each in str(plugins) for each in _REMOTE)
    return False


def is_adapter(recipe: Recipe) -> bool:
    """True if a recipe of torchtune or axolotl freezes the model's weights beside adapters."""
    if recipe.kind is Kind.AXOLOTL:
        return bool(recipe.option("adapter").value)
    builder = recipe.component("model").rpartition(".")[2]
    if not builder and recipe.name:
        return "lora" in recipe.name
    return builder.startswith(_ADAPTERS) or "_lora_" in builder


def is_sharded(recipe: Recipe) -> bool:
    """True if weights or optimizer states are spread over several GPUs."""
    if recipe.kind is not Kind.TORCHTUNE:
        return any(recipe.has(key) for key in ("deepspeed", "fsdp", "fsdp_config"))
    if recipe.name:
        return "distributed" in recipe.name
    # Its comments say how it is launched.
    said = _SEVERAL_GPUS.search(recipe.source.text) is not None
    return said or any(recipe.has(key) for key in _SHARDING)


def attends_flexibly(recipe: Recipe) -> bool:
    """True if a recipe of axolotl computes attention by FlexAttention."""
    implementation = str(recipe.option("attn_implementation").value)
    return implementation.startswith("flex") or is_on(recipe, "flex_attention")


def takes_images(recipe: Recipe) -> bool:
    """True if images may go into the model."""
    if recipe.kind is not Kind.TORCHTUNE:
        keys = _IMAGES.get(recipe.kind, ())
        given = any(recipe.has(key) for key in keys) or is_on(recipe, "is_multimodal", "mm")
        named = [str(recipe.option(key).value) for key in ("template", "model_name_or_path")]
        return given or (recipe.kind is Kind.LLAMA_FACTORY and any(map(_SEEING.search, named)))
    model = f"{recipe.component('model')} {recipe.config}"
    return (
        "vision" in model
        or ".clip." in model
        or "multimodal" in recipe.component("dataset")
        # What stands for the tokenizer of a model with a vision tower.
        or recipe.component("tokenizer").endswith("_transform")
        or recipe.option("checkpointer.model_type").is_value("LLAMA3_VISION")
    )


def can_pack(recipe: Recipe) -> bool:
    """True if torchtune definitely packs the recipe's data set where it is told to.

    It refuses images, pairs of answers and prompts for online methods; data sets of the user's own
    and their collators are not known.
    """
    if takes_images(recipe) or any(word in recipe.name for word in _PAIRS_OR_PROMPTS):
        return False
    dataset, collator = recipe.option("dataset._component_"), recipe.option("collate_fn")
    if UNKNOWN in (dataset.value, collator.value) and not recipe.is_of_program:
        return False
    if collator.value not in (None, UNKNOWN, _TEXT_COLLATOR):
        return False
    return dataset.value is UNKNOWN or component_takes(str(dataset.value), "packed", recipe.release)
