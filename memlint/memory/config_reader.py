"""Reads a ``config.json`` into an ``Architecture``.

Most decoders share one vocabulary of keys; what families do differently stands in the rows of
``memlint.api.knowledge.model_types``. A model type without a row is read by the shared keys and
named in ``unknown``.
"""

from collections.abc import Callable, Mapping
from typing import Any

from memlint.api.knowledge.model_types import ModelType, is_listed, model_type, usual_name
from memlint.memory.architecture import Architecture, Linear, Mlp, Tower
from memlint.memory.config_values import Config, ConfigError, number
from memlint.memory.decoders import decoder, falcon
from memlint.memory.encoders import BART_NAMES, encoder, encoder_layer, labels, seq2seq

# What a configuration may say of a model of a script's own, and the share of its weights that may
# stand beside its layers.
_TRAITS = frozenset(
    {
        *("norm", "norm_bias", "gated", "fused_gate", "fused_qkv", "query_norm", "position_rows"),
        *("rotary", "head_bias", "norms", "loss_dtype", "post_norm"),
    }
)
_UNPLACED = 0.05
_CLASSIFIERS = tuple(f"For{what}Classification" for what in ("Sequence", "Image", "Token"))


def read_config(config: Config) -> Architecture:
    """The architecture that a ``config.json`` describes.

    Raises:
        ConfigError: a size without which nothing can be computed is missing.
    """
    name = usual_name(str(config.get("model_type") or _guess(config)))
    row = model_type(name)
    _refuse_states(config, row)
    if row.reader == "inside" or isinstance(config.get("text_config"), dict):
        return _multimodal(config, row)
    config, row = _completed(config, row)
    architecture = _READERS[row.reader](config, row)
    changes: dict[str, Any] = {}
    classes = config.get("architectures") or [""]
    if str(classes[0]).endswith(_CLASSIFIERS):
        of_tokens = str(classes[0]).endswith("ForTokenClassification")
        changes.update(head="tokens" if of_tokens else "classes", labels=labels(config))
    quantization = config.get("quantization_config")
    if isinstance(quantization, Mapping):
        changes["quantization"] = str(quantization.get("quant_method", "bitsandbytes"))
    architecture = architecture._replace(
        dtype=_dtype(config), unknown=() if is_listed(name) else (name,), **changes
    )
    return _counted(architecture, config.get("parameters"))


def _counted(architecture: Architecture, parameters: object) -> Architecture:
    """The model with as many parameters as were counted, where they were: what no row has a place
    for stands beside its layers."""
    if type(parameters) is not int:
        return architecture
    more = parameters - architecture.parameters
    unknown = ("layers",) if abs(more) > _UNPLACED * parameters else architecture.unknown
    other = architecture.other_parameters + more
    return architecture._replace(other_parameters=other, unknown=unknown)


def _refuse_states(config: Config, row: ModelType) -> None:
    """State-space layers keep what their kernels choose: no number is better than a wrong one."""
    types = config.get("layer_types") or config.get("layers_block_type") or ()
    named = "mamba" in types if isinstance(types, (list, tuple)) else False
    if named or row.reader == "states" or {"time_step_rank", "mamba_d_state"} & set(config):
        raise ConfigError(f"state-space layers ({row.name}) are not modelled, only attention")


def _completed(config: Config, row: ModelType) -> tuple[Config, ModelType]:
    """The configuration by the names that families share, with what it leaves out."""
    config = {**row.config, **config}
    config |= {key: value for key, path in row.moved.items() if (value := _at(config, path))}
    traits = config.get("traits")
    if isinstance(traits, Mapping):
        row = row._replace(**{name: one for name, one in traits.items() if name in _TRAITS})
    key, other = row.older
    if key not in config:
        return config, row
    older = model_type(other)
    return {**older.config, **config}, older._replace(name=row.name)


def _dtype(config: Config) -> str:
    return str(config.get("dtype") or config.get("torch_dtype") or "")


def _at(config: Config, path: str) -> Any:
    """A value in the sections of a configuration."""
    value: Any = config
    for part in path.split("."):
        value = (value.get(part) if isinstance(value, Mapping) else None) or None
    return value


def _guess(config: Config) -> str:
    names = " ".join(config.get("architectures") or ())
    for name in ("QWenLMHead", "ChatGLM", "Baichuan", "Falcon", "Bert", "ViT", "GPT2", "Mistral"):
        if name in names:
            return {"QWenLMHead": "qwen"}.get(name, name.lower())
    return "llama"


_INHERITED = (
    *("hidden_size", "num_hidden_layers", "vocab_size", "num_attention_heads"),
    *("num_key_value_heads", "intermediate_size", "tie_word_embeddings"),
)


def _multimodal(config: Config, row: ModelType) -> Architecture:
    """A language model inside a model that also sees: the text part and a vision tower."""
    text = {name: config[name] for name in _INHERITED if name in config}
    text |= {"model_type": row.text, **(config.get("text_config") or {})}
    architecture = read_config(text)
    vision = config.get("vision_config")
    if isinstance(vision, Mapping):
        tower = _vision_tower(vision, architecture.hidden, row)
        unknown = () if tower else ("vision_config",)
        towers = (tower,) if tower else ()
        architecture = architecture._replace(towers=towers, unknown=unknown or architecture.unknown)
    return architecture._replace(family=row.name, dtype=_dtype(config) or architecture.dtype)


def _vision_tower(vision: Config, hidden: int, row: ModelType) -> Tower | None:
    width = vision.get(row.vision_width)
    depth = vision.get("num_hidden_layers") or vision.get("depth")
    if not isinstance(width, int) or not isinstance(depth, int):
        return None
    heads = number(vision, "num_attention_heads", "num_heads", default=16)
    inner = vision.get("intermediate_size")
    if not isinstance(inner, int):
        inner = int(width * float(vision.get("mlp_ratio", 4)))
    activation = "silu" if row.vision_gated else str(vision.get("hidden_act", "gelu"))
    layer = encoder_layer(width, heads, inner, activation, BART_NAMES, dropout=0.0)
    if row.vision_gated:
        up = (Linear(name, width, inner, True) for name in ("gate_proj", "up_proj"))
        down = Linear("down_proj", inner, width, True)
        layer = layer._replace(mlp=Mlp(activation, (*up, down)))
    image = number(vision, "image_size", default=0)
    patch = number(vision, "patch_size", default=14)
    channels = number(vision, "num_channels", "in_channels", "in_chans", default=3)
    temporal = number(vision, "temporal_patch_size", default=1)
    tokens = (image // patch) ** 2 if image else 0
    other = patch * patch * channels * temporal * width + width
    if image:
        other += tokens * width + 2 * width
    merge = number(vision, "spatial_merge_size", default=1) ** 2
    if merge > 1:
        other += (merge * width) ** 2 + merge * width * hidden + merge * width + hidden
    elif row.projector == "linear":
        other += width * hidden
    else:
        other += width * hidden + hidden * hidden + 2 * hidden
    return Tower("vision tower", width, ((layer, depth),), other_parameters=other, tokens=tokens)


_READERS: dict[str, Callable[[Config, ModelType], Architecture]] = {
    "decoder": decoder,
    "falcon": falcon,
    "encoder": encoder,
    "seq2seq": seq2seq,
}
