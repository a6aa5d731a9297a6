"""Reads a ``config.json`` into an ``Architecture``.

Most decoders share one vocabulary of keys; families differ in a few facts (which biases, which
norm, fused projections), which stand in ``_TRAITS``. A model type that is not listed is read by
the shared keys and named in ``unknown``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from memlint.memory.architecture import Architecture, Attention, Layer, Linear, Mlp, Tower
from memlint.memory.renamed import shared_names

Config = Mapping[str, Any]

_MOST = 10**9  # no size of a model reaches it
_LAYERS = 10**5
_STATE_SPACE = frozenset(("mamba", "mamba2", "falcon_mamba", "rwkv", "rwkv5", "xlstm", "bamba"))


class ConfigError(ValueError):
    """A configuration that says too little to size a model."""


def read_config(config: Config) -> Architecture:
    """The architecture that a ``config.json`` describes.

    Raises:
        ConfigError: a size without which nothing can be computed is missing.
    """
    config, kind = shared_names(config, str(config.get("model_type") or _guess(config)))
    _refuse_states(config, kind)
    if kind in _TEXT_INSIDE or (
        "text_config" in config and isinstance(config["text_config"], dict)
    ):
        return _multimodal(config, kind)
    reader = _READERS.get(kind, _decoder)
    architecture = reader(config, kind)
    labels = config.get("id2label")
    classes = config.get("architectures") or [""]
    changes: dict[str, Any] = {}
    if str(classes[0]).endswith(
        ("ForSequenceClassification", "ForImageClassification", "ForTokenClassification")
    ):
        changes["head"] = "classes"
        changes["labels"] = (
            len(labels) if isinstance(labels, dict) else _number(config, "num_labels", default=2)
        )
    quantization = config.get("quantization_config")
    if isinstance(quantization, Mapping):
        changes["quantization"] = str(quantization.get("quant_method", "bitsandbytes"))
    dtype = config.get("dtype") or config.get("torch_dtype")
    if dtype:
        changes["dtype"] = str(dtype)
    if kind not in _READERS and kind not in _TRAITS:
        changes["unknown"] = (kind,)
    return architecture._replace(**changes) if changes else architecture


def _refuse_states(config: Config, kind: str) -> None:
    """State-space layers keep what their kernels choose: no number is better than a wrong one."""
    types = config.get("layer_types") or config.get("layers_block_type") or ()
    named = "mamba" in types if isinstance(types, (list, tuple)) else False
    if named or kind in _STATE_SPACE or {"time_step_rank", "mamba_d_state"} & set(config):
        raise ConfigError(f"state-space layers ({kind}) are not modelled, only attention")


def _guess(config: Config) -> str:
    names = " ".join(config.get("architectures") or ())
    for name in ("QWenLMHead", "ChatGLM", "Baichuan", "Falcon", "Bert", "ViT", "GPT2", "Mistral"):
        if name in names:
            return {"QWenLMHead": "qwen"}.get(name, name.lower())
    return "llama"


def _number(config: Config, *names: str, default: int | None = None) -> int:
    for name in names:
        value = config.get(name)
        if isinstance(value, str) and value.strip().isdigit():
            value = int(value)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            if value < 0 and default is not None:
                return default  # -1 switches an option off
            least = 1 if default is None else 0
            most = _LAYERS if "layer" in name else _MOST
            if not least <= value < most or value != int(value):
                raise ConfigError(
                    f"{name!r} is a whole number from {least} to {most}, not {value!r}"
                )
            return int(value)
    if default is None:
        raise ConfigError(f"the model's configuration has no {names[0]!r}")
    return default


class Traits:
    """What sets a family of decoders apart; by default, Llama."""

    def __init__(
        self,
        *,
        qkv_bias: bool = False,
        out_bias: bool = False,
        mlp_bias: bool = False,
        norm: str = "rms",
        norm_bias: bool = False,
        norms: int = 2,
        parallel: bool = False,
        gated: bool = True,
        activation: str = "silu",
        tied: bool = False,
        query_norm: bool = False,
        rotary_share: float = 1.0,
        names: Mapping[str, str] | None = None,
        fused_qkv: str = "",
        fused_gate: str = "",
        head_bias: bool = False,
        learned_positions: int = 0,
        softcap: bool = False,
        rotary: bool = True,
    ) -> None:
        self.qkv_bias = qkv_bias
        self.out_bias = out_bias
        self.mlp_bias = mlp_bias
        self.norm = norm
        self.norm_bias = norm_bias
        self.norms = norms
        self.parallel = parallel
        self.gated = gated
        self.activation = activation
        self.tied = tied
        self.query_norm = query_norm
        self.rotary_share = rotary_share
        self.names = names or {}
        self.fused_qkv = fused_qkv
        self.fused_gate = fused_gate
        self.head_bias = head_bias
        self.learned_positions = learned_positions
        self.softcap = softcap
        self.rotary = rotary


_GPT2 = {
    "q_proj": "c_attn",
    "o_proj": "c_proj",
    "up_proj": "c_fc",
    "down_proj": "c_proj",
}
_NEOX = {
    "o_proj": "dense",
    "up_proj": "dense_h_to_4h",
    "down_proj": "dense_4h_to_h",
}
_TRAITS: dict[str, Traits] = {
    "llama": Traits(),
    "mistral": Traits(),
    "mixtral": Traits(),
    "ministral": Traits(),
    "ministral3": Traits(),
    "yi": Traits(),
    "internlm": Traits(qkv_bias=True, out_bias=True),
    "qwen2": Traits(qkv_bias=True),
    "qwen2_moe": Traits(qkv_bias=True),
    "qwen3": Traits(query_norm=True),
    "qwen3_moe": Traits(query_norm=True),
    "gemma": Traits(norm="gemma", tied=True, activation="gelu_pytorch_tanh"),
    "gemma2": Traits(
        norm="gemma", tied=True, norms=4, softcap=True, activation="gelu_pytorch_tanh"
    ),
    "gemma3_text": Traits(
        norm="gemma", tied=True, norms=4, query_norm=True, activation="gelu_pytorch_tanh"
    ),
    "gemma3": Traits(
        norm="gemma", tied=True, norms=4, query_norm=True, activation="gelu_pytorch_tanh"
    ),
    "phi": Traits(
        qkv_bias=True,
        out_bias=True,
        mlp_bias=True,
        norm="layer",
        norm_bias=True,
        norms=1,
        parallel=True,
        gated=False,
        activation="gelu_new",
        head_bias=True,
        rotary_share=0.4,
        names={"o_proj": "dense", "up_proj": "fc1", "down_proj": "fc2"},
    ),
    "phi3": Traits(fused_qkv="qkv_proj", fused_gate="gate_up_proj"),
    "phimoe": Traits(qkv_bias=True, out_bias=True, norm="layer", norm_bias=True, head_bias=True),
    "stablelm": Traits(norm="layer", norm_bias=True),
    "stablelm_epoch": Traits(norm="layer", norm_bias=True),
    "olmo": Traits(norm="none"),
    "olmo2": Traits(query_norm=True),
    "olmo3": Traits(query_norm=True),
    "olmoe": Traits(query_norm=True),
    "granite": Traits(),
    "granitemoe": Traits(),
    "cohere": Traits(norm="layer", norms=1, parallel=True, tied=True),
    "cohere2": Traits(norm="layer", norms=1, parallel=True, tied=True),
    "smollm3": Traits(tied=True),
    "starcoder2": Traits(
        qkv_bias=True,
        out_bias=True,
        mlp_bias=True,
        norm="layer",
        norm_bias=True,
        gated=False,
        tied=True,
        activation="gelu_pytorch_tanh",
        names={"up_proj": "c_fc", "down_proj": "c_proj"},
    ),
    "gpt_neox": Traits(
        qkv_bias=True,
        out_bias=True,
        mlp_bias=True,
        norm="layer",
        norm_bias=True,
        gated=False,
        parallel=True,
        activation="gelu",
        rotary_share=0.25,
        fused_qkv="query_key_value",
        names=_NEOX,
    ),
    "gpt2": Traits(
        qkv_bias=True,
        out_bias=True,
        mlp_bias=True,
        norm="layer",
        norm_bias=True,
        gated=False,
        tied=True,
        activation="gelu_new",
        rotary=False,
        fused_qkv="c_attn",
        names=_GPT2,
        learned_positions=1,
    ),
    "gpt_bigcode": Traits(
        qkv_bias=True,
        out_bias=True,
        mlp_bias=True,
        norm="layer",
        norm_bias=True,
        gated=False,
        tied=True,
        activation="gelu_pytorch_tanh",
        rotary=False,
        fused_qkv="c_attn",
        names=_GPT2,
        learned_positions=1,
    ),
    "gptj": Traits(
        mlp_bias=True,
        norm="layer",
        norm_bias=True,
        norms=1,
        parallel=True,
        gated=False,
        activation="gelu_new",
        head_bias=True,
        rotary_share=0.25,
        names={"o_proj": "out_proj", "up_proj": "fc_in", "down_proj": "fc_out"},
    ),
    "codegen": Traits(
        mlp_bias=True,
        norm="layer",
        norm_bias=True,
        norms=1,
        parallel=True,
        gated=False,
        activation="gelu_new",
        head_bias=True,
        rotary_share=0.25,
        fused_qkv="qkv_proj",
        names={"o_proj": "out_proj", "up_proj": "fc_in", "down_proj": "fc_out"},
    ),
    "gpt_neo": Traits(
        out_bias=True,
        mlp_bias=True,
        norm="layer",
        norm_bias=True,
        gated=False,
        tied=True,
        activation="gelu_new",
        rotary=False,
        names={"o_proj": "out_proj", "up_proj": "c_fc", "down_proj": "c_proj"},
        learned_positions=1,
    ),
    "modernbert": Traits(
        norm="layer",
        tied=True,
        activation="gelu",
        fused_qkv="Wqkv",
        fused_gate="Wi",
        names={"o_proj": "Wo", "down_proj": "Wo"},
    ),
    "dbrx": Traits(norm="layer", fused_qkv="Wqkv", names={"o_proj": "out_proj"}),
    "hf_olmo": Traits(norm="none"),
    "opt": Traits(
        qkv_bias=True,
        out_bias=True,
        mlp_bias=True,
        norm="layer",
        norm_bias=True,
        gated=False,
        tied=True,
        activation="relu",
        rotary=False,
        names={"o_proj": "out_proj", "up_proj": "fc1", "down_proj": "fc2"},
        learned_positions=1,
    ),
    "bloom": Traits(
        qkv_bias=True,
        out_bias=True,
        mlp_bias=True,
        norm="layer",
        norm_bias=True,
        gated=False,
        tied=True,
        activation="gelu",
        rotary=False,
        fused_qkv="query_key_value",
        names=_NEOX,
    ),
    "mpt": Traits(
        norm="layer",
        gated=False,
        tied=True,
        activation="gelu",
        rotary=False,
        fused_qkv="Wqkv",
        names={"o_proj": "out_proj", "down_proj": "down_proj"},
    ),
    "qwen": Traits(
        fused_qkv="c_attn",
        qkv_bias=True,
        names={"o_proj": "c_proj", "gate_proj": "w2", "up_proj": "w1", "down_proj": "c_proj"},
    ),
    "baichuan": Traits(fused_qkv="W_pack"),
    "chatglm": Traits(
        fused_qkv="query_key_value",
        qkv_bias=True,
        fused_gate="dense_h_to_4h",
        names={"o_proj": "dense", "down_proj": "dense_4h_to_h"},
        rotary_share=0.5,
    ),
    "glm": Traits(qkv_bias=True, fused_gate="gate_up_proj", rotary_share=0.5),
    "glm4": Traits(qkv_bias=True, fused_gate="gate_up_proj", rotary_share=0.5, norms=4),
    "internlm2": Traits(
        fused_qkv="wqkv",
        names={"o_proj": "wo", "gate_proj": "w1", "up_proj": "w3", "down_proj": "w2"},
    ),
    "exaone": Traits(),
    "exaone4": Traits(query_norm=True),
    "nemotron": Traits(
        norm="layer", norm_bias=True, gated=False, activation="relu2", rotary_share=0.5
    ),
    "seed_oss": Traits(qkv_bias=True),
    "ernie4_5": Traits(tied=True),
    "hunyuan_v1_dense": Traits(query_norm=True),
    "apertus": Traits(query_norm=True, gated=False, activation="xielu"),
    "arcee": Traits(gated=False, activation="relu2"),
    "falcon": Traits(),
    "RefinedWeb": Traits(),
    "RefinedWebModel": Traits(),
    "deepseek_v2": Traits(),
    "deepseek_v3": Traits(),
    "kimi_k2": Traits(),
    "minicpm": Traits(tied=True),
    "gpt_oss": Traits(qkv_bias=True, out_bias=True),
    "qwen3_next": Traits(norm="gemma", query_norm=True),
    "qwen3_5_text": Traits(norm="gemma", query_norm=True),
    "qwen3_5_moe_text": Traits(norm="gemma", query_norm=True),
    "glm4_moe": Traits(qkv_bias=True, rotary_share=0.5),
    "llama4_text": Traits(),
    "lfm2": Traits(query_norm=True, tied=True),
}


def _decoder(config: Config, kind: str) -> Architecture:
    """Decoders that share Llama's keys, with their family's traits."""
    traits = _TRAITS.get(kind, _TRAITS["llama"])
    hidden = _number(config, "hidden_size", "n_embd", "d_model", "dim")
    depth = _number(config, "num_hidden_layers", "n_layer", "num_layers", "n_layers")
    vocabulary = _number(config, "padded_vocab_size", "vocab_size", default=0)
    tied = bool(config.get("tie_word_embeddings", traits.tied))
    positions = _number(config, "max_position_embeddings", "n_positions", "seq_length", default=0)
    norm = traits.norm
    norm_bias = traits.norm_bias
    if config.get("normalization_type") == "layernorm" or config.get("use_layernorm"):
        norm, norm_bias = "layer", True
    layers = _runs([_layer(config, kind, traits, index, hidden) for index in range(depth)])
    other = 0
    if traits.learned_positions:
        other = positions * hidden + (2 * hidden if kind == "opt" else 0)
    embedding_dim = _number(config, "word_embed_proj_dim", default=hidden)
    if embedding_dim != hidden:
        other += 2 * embedding_dim * hidden
    if kind == "bloom":
        other += 2 * hidden
    return Architecture(
        family=kind,
        hidden=hidden,
        vocabulary=vocabulary,
        layers=layers,
        norm=norm,
        norm_bias=norm_bias,
        tied=tied,
        embedding_dim=embedding_dim,
        other_parameters=other,
        head_bias=traits.head_bias,
        max_positions=positions,
        logit_softcap=bool(config.get("final_logit_softcapping")) or traits.softcap,
        logit_scale=kind in ("granite", "granitemoe", "cohere", "cohere2"),
    )


def _runs(layers: list[Layer]) -> tuple[tuple[Layer, int], ...]:
    """Neighbouring equal layers as one entry with a count."""
    runs: list[tuple[Layer, int]] = []
    for layer in layers:
        if runs and (runs[-1][0] is layer or runs[-1][0] == layer):
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        else:
            runs.append((layer, 1))
    return tuple(runs)


def _layer(config: Config, kind: str, traits: Traits, index: int, hidden: int) -> Layer:
    types = config.get("layer_types")
    layer_type = str(types[index]) if isinstance(types, list) and index < len(types) else ""
    if not layer_type:
        layer_type = _layer_type(config, kind, index)
    return Layer(
        attention=_attention(config, kind, traits, layer_type, hidden),
        mlp=_mlp(config, kind, traits, index, hidden),
        norms=traits.norms,
        parallel=traits.parallel and bool(config.get("use_parallel_residual", True)),
        dropout=float(config.get("resid_pdrop") or config.get("hidden_dropout") or 0.0)
        if not traits.gated
        else 0.0,
    )


def _layer_type(config: Config, kind: str, index: int) -> str:
    if kind in ("qwen3_next", "qwen3_5_text", "qwen3_5_moe_text"):
        every = _number(config, "full_attention_interval", default=4)
        return "full_attention" if (index + 1) % every == 0 else "linear_attention"
    if kind == "gemma2":
        return "full_attention" if index % 2 else "sliding_attention"
    if kind in ("gemma3", "gemma3_text"):
        every = _number(config, "sliding_window_pattern", default=6)
        return "full_attention" if (index + 1) % every == 0 else "sliding_attention"
    if kind == "gpt_oss":
        return "full_attention" if index % 2 else "sliding_attention"
    if kind in ("mistral", "phi3", "starcoder2") and config.get("sliding_window"):
        return "sliding_attention"
    return "full_attention"


def _attention(
    config: Config, kind: str, traits: Traits, layer_type: str, hidden: int
) -> Attention:
    if layer_type in ("linear_attention", "conv", "mamba"):
        return _linear_attention(config, hidden, layer_type)
    if config.get("kv_lora_rank"):
        return _latent_attention(config, hidden)
    heads = _number(config, "num_attention_heads", "n_head", "n_heads", "num_heads")
    keys = _key_heads(config, heads)
    head = _number(config, "head_dim", "kv_channels", default=hidden // heads)
    bias, out_bias = _attention_biases(config, kind, traits)
    gate = kind in ("qwen3_next", "qwen3_5_text", "qwen3_5_moe_text")
    wide = heads * head * (2 if gate else 1)
    if traits.fused_qkv:
        maps = {traits.fused_qkv: (heads + 2 * keys) * head}
    else:
        maps = {"q_proj": wide, "k_proj": keys * head, "v_proj": keys * head}
    projections = (Linear(name, hidden, width, bias) for name, width in maps.items())
    out = Linear(traits.names.get("o_proj", "o_proj"), heads * head, hidden, out_bias)
    sinks = heads if kind == "gpt_oss" else 0
    sliding = layer_type in ("sliding_attention", "chunked_attention")
    return Attention(
        kind="sliding" if sliding else "full",
        heads=heads,
        key_heads=keys,
        key_dim=head,
        value_dim=head,
        window=_number(config, "sliding_window", "attention_chunk_size", default=0)
        if sliding
        else 0,
        rotary=traits.rotary and not config.get("alibi"),
        rotary_share=float(
            config.get("partial_rotary_factor") or config.get("rotary_pct") or traits.rotary_share
        ),
        query_norm=traits.query_norm,
        output_gate=gate,
        projections=(*projections, out),
        other_parameters=_query_norm(kind, traits, heads, keys, head) + sinks,
        dropout=float(config.get("attention_dropout") or config.get("attn_pdrop") or 0.0),
        alibi=bool(config.get("alibi")) or kind in ("bloom", "mpt"),
        softcap=bool(config.get("attn_logit_softcapping", kind == "gemma2")),
    )


def _query_norm(kind: str, traits: Traits, heads: int, keys: int, head: int) -> int:
    """Parameters of the norms of queries and keys: of all heads at once, or the same for each."""
    if not traits.query_norm:
        return 0
    return (heads + keys) * head if kind in ("olmo2", "olmo3", "olmoe") else 2 * head


def _attention_biases(config: Config, kind: str, traits: Traits) -> tuple[bool, bool]:
    """Whether the maps into attention have biases, and whether the one out of it has."""
    asked = bool(config.get("attention_bias"))
    out_bias = traits.out_bias or bool(config.get("attention_out_bias"))
    out_bias = out_bias or (asked and kind in ("llama", "granite"))
    if kind in ("qwen", "gpt2", "phi", "gpt_bigcode", "qwen2", "qwen2_moe"):
        return traits.qkv_bias, out_bias
    if kind in ("stablelm", "stablelm_epoch"):
        return bool(config.get("use_qkv_bias", False)), out_bias
    bias = bool(config.get("attention_bias", traits.qkv_bias))
    return bias or bool(config.get("add_qkv_bias", False)), out_bias


def _key_heads(config: Config, heads: int) -> int:
    if config.get("multi_query_attention") is True and "multi_query_group_num" in config:
        return int(config["multi_query_group_num"])
    if config.get("new_decoder_architecture"):
        return _number(config, "num_kv_heads", default=heads)
    if config.get("multi_query"):
        return 1
    return _number(config, "num_key_value_heads", "num_kv_heads", default=heads)


def _latent_attention(config: Config, hidden: int) -> Attention:
    """Multi-head latent attention (DeepSeek V2 and V3)."""
    heads = _number(config, "num_attention_heads")
    rope = _number(config, "qk_rope_head_dim", default=64)
    plain = _number(config, "qk_nope_head_dim", default=128)
    value = _number(config, "v_head_dim", default=128)
    latent = _number(config, "kv_lora_rank")
    query = _number(config, "q_lora_rank", default=0)
    key = rope + plain
    first: tuple[Linear, ...]
    if query:
        first = (Linear("q_a_proj", hidden, query), Linear("q_b_proj", query, heads * key))
    else:
        first = (Linear("q_proj", hidden, heads * key),)
    return Attention(
        kind="latent",
        heads=heads,
        key_heads=heads,
        key_dim=key,
        value_dim=value,
        projections=(
            *first,
            Linear("kv_a_proj_with_mqa", hidden, latent + rope),
            Linear("kv_b_proj", latent, heads * (plain + value)),
            Linear("o_proj", heads * value, hidden),
        ),
        other_parameters=latent + query,
        latent=latent,
        query_latent=query,
        rotary_dim=rope,
    )


def _linear_attention(config: Config, hidden: int, layer_type: str) -> Attention:
    """A gated delta rule layer (Qwen3-Next, Qwen3.5), a short convolution or a state space."""
    if layer_type == "conv":
        return Attention(
            kind="convolution",
            projections=(Linear("in_proj", hidden, 3 * hidden), Linear("out_proj", hidden, hidden)),
            other_parameters=hidden * _number(config, "conv_L_cache", default=3),
            convolution=hidden,
        )
    keys = _number(config, "linear_num_key_heads", default=16)
    values = _number(config, "linear_num_value_heads", default=32)
    key = _number(config, "linear_key_head_dim", default=128)
    value = _number(config, "linear_value_head_dim", default=128)
    kernel = _number(config, "linear_conv_kernel_dim", default=4)
    width = 2 * keys * key + values * value
    split = str(config.get("model_type", "")).startswith("qwen3_5")
    projections: tuple[Linear, ...]
    if split:
        projections = (
            Linear("in_proj_qkv", hidden, width),
            Linear("in_proj_z", hidden, values * value),
            Linear("in_proj_b", hidden, values),
            Linear("in_proj_a", hidden, values),
        )
    else:
        projections = (
            Linear("in_proj_qkvz", hidden, width + values * value),
            Linear("in_proj_ba", hidden, 2 * values),
        )
    return Attention(
        kind="linear",
        heads=values,
        key_heads=keys,
        key_dim=key,
        value_dim=value,
        projections=(*projections, Linear("out_proj", values * value, hidden)),
        other_parameters=width * kernel + 2 * values + value,
        convolution=width,
    )


def _mlp(config: Config, kind: str, traits: Traits, index: int, hidden: int) -> Mlp:
    names = traits.names
    inner = _number(
        config, "intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size", default=4 * hidden
    )
    if kind == "qwen":
        inner //= 2
    if kind == "mpt":
        inner = int(config.get("expansion_ratio", 4)) * hidden
    bias = bool(config.get("mlp_bias", traits.mlp_bias))
    activation = str(
        config.get("hidden_activation")
        or config.get("hidden_act")
        or config.get("activation_function")
        or traits.activation
    )
    experts = _experts(config, kind, index)
    if experts:
        return _mixture(config, kind, hidden, inner, experts, activation)
    if config.get("plain_feed_forward"):
        up = Linear(traits.fused_gate or "up_proj", hidden, inner, bias)
        down = Linear(names.get("down_proj", "down_proj"), inner, hidden, bias)
        return Mlp(gated=False, inner=inner, activation="gelu", projections=(up, down))
    return Mlp(
        gated=traits.gated,
        inner=inner,
        activation=activation,
        projections=_feed_forward(traits, names, hidden, inner, bias),
        fused_gate=bool(traits.fused_gate),
    )


def _feed_forward(
    traits: Traits, names: Mapping[str, str], hidden: int, inner: int, bias: bool
) -> tuple[Linear, ...]:
    down = Linear(names.get("down_proj", "down_proj"), inner, hidden, bias)
    if not traits.gated:
        return (Linear(names.get("up_proj", "up_proj"), hidden, inner, bias), down)
    if traits.fused_gate:
        return (Linear(traits.fused_gate, hidden, 2 * inner, bias), down)
    return (
        Linear(names.get("gate_proj", "gate_proj"), hidden, inner, bias),
        Linear(names.get("up_proj", "up_proj"), hidden, inner, bias),
        down,
    )


def _experts(config: Config, kind: str, index: int) -> int:
    count = _number(
        config, "num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts", default=0
    )
    if not count:
        return 0
    if index < _number(config, "first_k_dense_replace", default=0):
        return 0
    step = _number(config, "decoder_sparse_step", default=1)
    if (index + 1) % max(step, 1):
        return 0
    dense = config.get("mlp_only_layers")
    if isinstance(dense, list) and index in dense:
        return 0
    if kind == "llama4_text":
        every = _number(config, "interleave_moe_layer_step", default=1)
        if (index + 1) % every:
            return 0
    return count


def _mixture(
    config: Config, kind: str, hidden: int, inner: int, experts: int, activation: str
) -> Mlp:
    """Experts, a router, and what all tokens share."""
    width = _number(config, "moe_intermediate_size", default=inner)
    active = _number(
        config, "num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_k", default=2
    )
    names = ("w1", "w3", "w2") if kind == "mixtral" else ("gate_proj", "up_proj", "down_proj")
    bias = kind == "gpt_oss"
    shared_width = _number(config, "shared_expert_intermediate_size", default=0)
    if not shared_width:
        shared_width = width * _number(config, "n_shared_experts", "num_shared_experts", default=0)
    if kind == "llama4_text":
        shared_width = width
    shared: tuple[Linear, ...] = ()
    other = 0
    if shared_width:
        shared = (
            Linear("shared_expert.gate_proj", hidden, shared_width),
            Linear("shared_expert.up_proj", hidden, shared_width),
            Linear("shared_expert.down_proj", shared_width, hidden),
        )
        if kind in ("qwen2_moe", "qwen3_next", "qwen3_5_moe_text"):
            other = hidden
    return Mlp(
        gated=True,
        inner=width,
        activation=activation,
        projections=(
            Linear(names[0], hidden, width, bias, experts),
            Linear(names[1], hidden, width, bias, experts),
            Linear(names[2], width, hidden, bias, experts),
        ),
        experts=experts,
        experts_per_token=active,
        router=experts * hidden,
        shared=shared,
        shared_inner=shared_width,
        other_parameters=experts * hidden
        + other
        + (experts if kind in ("gpt_oss", "deepseek_v3", "glm4_moe") else 0),
    )


def _baichuan(config: Config, kind: str) -> Architecture:
    """Baichuan and Baichuan2: Llama with a fused W_pack; the 13B has no rotary embedding."""
    architecture = _decoder(config, kind)
    if architecture.hidden >= 5120:
        layer, count = architecture.layers[0]
        attention = layer.attention._replace(rotary=False, alibi=True)
        return architecture._replace(layers=((layer._replace(attention=attention), count),))
    return architecture


def _falcon(config: Config, kind: str) -> Architecture:
    """Falcon: parallel blocks, one or two norms, multi-query or grouped keys."""
    hidden = _number(config, "hidden_size")
    heads = _number(config, "num_attention_heads", "n_head")
    grouped = bool(config.get("new_decoder_architecture", False))
    multi = bool(config.get("multi_query", True))
    keys = (
        _number(config, "num_kv_heads", "n_head_kv", default=heads)
        if grouped
        else (1 if multi else heads)
    )
    head = hidden // heads
    bias = bool(config.get("bias", False))
    parallel = grouped or bool(config.get("parallel_attn", True))
    inner = _number(config, "ffn_hidden_size", default=4 * hidden)
    layer = Layer(
        attention=Attention(
            heads=heads,
            key_heads=keys,
            key_dim=head,
            value_dim=head,
            rotary=not config.get("alibi"),
            alibi=bool(config.get("alibi")),
            projections=(
                Linear("query_key_value", hidden, (heads + 2 * keys) * head, bias),
                Linear("dense", heads * head, hidden, bias),
            ),
        ),
        mlp=Mlp(
            gated=False,
            inner=inner,
            activation="gelu",
            projections=(
                Linear("dense_h_to_4h", hidden, inner, bias),
                Linear("dense_4h_to_h", inner, hidden, bias),
            ),
        ),
        norms=2 if (grouped and config.get("num_ln_in_parallel_attn") != 1) or not parallel else 1,
        parallel=parallel,
    )
    return Architecture(
        family=kind,
        hidden=hidden,
        vocabulary=_number(config, "vocab_size"),
        layers=((layer, _number(config, "num_hidden_layers", "n_layer")),),
        norm="layer",
        norm_bias=True,
        tied=bool(config.get("tie_word_embeddings", True)),
    )


def _encoder_layer(
    hidden: int,
    heads: int,
    inner: int,
    activation: str,
    names: tuple[str, str, str, str, str, str],
    *,
    bias: bool = True,
    dropout: float = 0.1,
    gated: bool = False,
    head: int = 0,
    causal: bool = False,
    cross: bool = False,
    norms: int = 2,
) -> Layer:
    query, key, value, out, up, down = names
    head = head or hidden // heads
    width = heads * head

    def attention() -> Attention:
        return Attention(
            heads=heads,
            key_heads=heads,
            key_dim=head,
            value_dim=head,
            rotary=False,
            causal=causal,
            dropout=dropout,
            projections=(
                Linear(query, hidden, width, bias),
                Linear(key, hidden, width, bias),
                Linear(value, hidden, width, bias),
                Linear(out, width, hidden, bias),
            ),
        )

    projections: tuple[Linear, ...] = (
        Linear(up, hidden, inner, bias),
        Linear(down, inner, hidden, bias),
    )
    if gated:
        projections = (
            Linear("wi_0", hidden, inner),
            Linear("wi_1", hidden, inner),
            Linear("wo", inner, hidden),
        )
    return Layer(
        attention=attention(),
        mlp=Mlp(gated=gated, inner=inner, activation=activation, projections=projections),
        norms=norms,
        cross=attention() if cross else None,
        dropout=dropout,
    )


_BERT = ("query", "key", "value", "dense", "dense", "dense")


def _bert(config: Config, kind: str) -> Architecture:
    """BERT, RoBERTa, ELECTRA, DistilBERT and their kin: post-norm encoders."""
    hidden = _number(config, "hidden_size", "dim")
    heads = _number(config, "num_attention_heads", "n_heads")
    inner = _number(config, "intermediate_size", "hidden_dim")
    dropout = float(config.get("hidden_dropout_prob", config.get("dropout", 0.1)))
    layer = _encoder_layer(
        hidden, heads, inner, str(config.get("hidden_act", "gelu")), _BERT, dropout=dropout
    )
    positions = _number(config, "max_position_embeddings", default=512)
    typed = kind not in ("distilbert", "deberta-v2")
    types = _number(config, "type_vocab_size", default=2) if typed else 0
    pooler = 0 if kind == "distilbert" else hidden * hidden + hidden
    names = str((config.get("architectures") or [""])[0])
    masked = "MaskedLM" in names or not names
    transform = hidden * hidden + 3 * hidden if masked else 0
    return Architecture(
        family=kind,
        hidden=hidden,
        vocabulary=_number(config, "vocab_size"),
        layers=((layer, _number(config, "num_hidden_layers", "n_layers")),),
        norm="layer",
        norm_bias=True,
        tied=True,
        head="lm" if masked else "classes",
        head_bias=True,
        labels=_number(config, "num_labels", default=2),
        other_parameters=(positions + types) * hidden + (transform if masked else pooler),
        max_positions=positions,
    )


def _vit(config: Config, kind: str) -> Architecture:
    """A vision transformer with a classification head."""
    hidden = _number(config, "hidden_size", default=768)
    heads = _number(config, "num_attention_heads", default=12)
    inner = _number(config, "intermediate_size", default=4 * hidden)
    image = _number(config, "image_size", default=224)
    patch = _number(config, "patch_size", default=16)
    channels = _number(config, "num_channels", default=3)
    tokens = (image // patch) ** 2 + 1
    layer = _encoder_layer(
        hidden,
        heads,
        inner,
        str(config.get("hidden_act", "gelu")),
        _BERT,
        dropout=float(config.get("hidden_dropout_prob", 0.0)),
    )
    labels = config.get("id2label")
    return Architecture(
        family=kind,
        hidden=hidden,
        vocabulary=0,
        layers=((layer, _number(config, "num_hidden_layers", default=12)),),
        norm="layer",
        norm_bias=True,
        head="classes",
        head_bias=True,
        labels=len(labels)
        if isinstance(labels, dict)
        else _number(config, "num_labels", default=2),
        other_parameters=patch * patch * channels * hidden + hidden + hidden + tokens * hidden,
        max_positions=tokens,
    )


def _t5(config: Config, kind: str) -> Architecture:
    """T5, Flan-T5, mT5: encoder and decoder, relative positions."""
    hidden = _number(config, "d_model")
    heads = _number(config, "num_heads")
    inner = _number(config, "d_ff")
    head = _number(config, "d_kv")
    gated = str(config.get("feed_forward_proj", "relu")).startswith("gated")
    names = ("q", "k", "v", "o", "wi", "wo")
    activation = str(config.get("dense_act_fn") or "relu")
    dropout = float(config.get("dropout_rate", 0.1))

    def layer(cross: bool) -> Layer:
        return _encoder_layer(
            hidden,
            heads,
            inner,
            activation,
            names,
            bias=False,
            dropout=dropout,
            gated=gated,
            head=head,
            causal=cross,
            cross=cross,
            norms=3 if cross else 2,
        )

    depth = _number(config, "num_layers")
    decoder = _number(config, "num_decoder_layers", default=depth)
    buckets = _number(config, "relative_attention_num_buckets", default=32)
    return Architecture(
        family=kind,
        hidden=hidden,
        vocabulary=_number(config, "vocab_size"),
        layers=((layer(True), decoder),),
        norm="rms",
        tied=bool(config.get("tie_word_embeddings", True)),
        towers=(
            Tower(
                "encoder",
                hidden,
                ((layer(False), depth),),
                norm="rms",
                other_parameters=hidden + buckets * heads,
            ),
        ),
        other_parameters=buckets * heads,
        encoder_decoder=True,
    )


def _bart(config: Config, kind: str) -> Architecture:
    """BART, mBART, Pegasus, Marian, NLLB, Whisper: encoder and decoder with learned positions."""
    hidden = _number(config, "d_model")
    dropout = float(config.get("dropout", 0.1))
    activation = str(config.get("activation_function", "gelu"))
    names = ("q_proj", "k_proj", "v_proj", "out_proj", "fc1", "fc2")
    encoder = _encoder_layer(
        hidden,
        _number(config, "encoder_attention_heads"),
        _number(config, "encoder_ffn_dim"),
        activation,
        names,
        dropout=dropout,
    )
    decoder = _encoder_layer(
        hidden,
        _number(config, "decoder_attention_heads"),
        _number(config, "decoder_ffn_dim"),
        activation,
        names,
        dropout=dropout,
        causal=True,
        cross=True,
        norms=3,
    )
    if kind == "whisper":
        mels = _number(config, "num_mel_bins", default=80)
        source = _number(config, "max_source_positions", default=1500)
        target = _number(config, "max_target_positions", default=448)
        conv = (mels + hidden) * hidden * 3 + 2 * hidden
        encoder_other = source * hidden + conv + 2 * hidden
        other, tokens = target * hidden, source
    else:
        positions = _number(config, "max_position_embeddings", default=1024) + 2
        encoder_other = positions * hidden + 2 * hidden + 2 * hidden
        other, tokens = positions * hidden + 2 * hidden - 2 * hidden, 0
    return Architecture(
        family=kind,
        hidden=hidden,
        vocabulary=_number(config, "vocab_size"),
        layers=((decoder, _number(config, "decoder_layers")),),
        norm="layer",
        norm_bias=True,
        tied=True,
        towers=(
            Tower(
                "encoder",
                hidden,
                ((encoder, _number(config, "encoder_layers")),),
                other_parameters=encoder_other,
                tokens=tokens,
            ),
        ),
        other_parameters=other,
        encoder_decoder=True,
        max_positions=_number(config, "max_position_embeddings", default=0),
    )


_TEXT_INSIDE = (
    "llava",
    "llava_next",
    "paligemma",
    "idefics2",
    "idefics3",
    "mllama",
    "qwen2_vl",
    "qwen2_5_vl",
    "qwen3_vl",
    "gemma3",
    "mistral3",
    "internvl",
    "smolvlm",
    "llama4",
    "qwen3_5",
    "qwen3_5_moe",
    "llava_onevision",
    "aya_vision",
    "gemma3n",
    "gemma4",
)


def _multimodal(config: Config, kind: str) -> Architecture:
    """A language model inside a model that also sees: the text part and a vision tower."""
    text = dict(config.get("text_config") or {})
    inherited = (
        "hidden_size",
        "num_hidden_layers",
        "vocab_size",
        "num_attention_heads",
        "num_key_value_heads",
        "intermediate_size",
        "tie_word_embeddings",
    )
    for name in inherited:
        if name not in text and name in config:
            text[name] = config[name]
    text.setdefault(
        "model_type",
        {
            "qwen2_vl": "qwen2",
            "qwen2_5_vl": "qwen2",
            "qwen3_vl": "qwen3",
            "gemma3": "gemma3_text",
        }.get(kind, "llama"),
    )
    inner_kind = str(text["model_type"])
    renamed = {
        "qwen2_vl_text": "qwen2",
        "qwen2_5_vl_text": "qwen2",
        "qwen3_vl_text": "qwen3",
        "qwen3_vl_moe_text": "qwen3_moe",
    }
    text["model_type"] = renamed.get(inner_kind, inner_kind)
    architecture = read_config(text)
    vision = config.get("vision_config")
    if isinstance(vision, Mapping):
        tower = _vision_tower(vision, architecture.hidden, kind)
        if tower is not None:
            architecture = architecture._replace(towers=(tower,))
        else:
            architecture = architecture._replace(unknown=("vision_config",))
    dtype = config.get("dtype") or config.get("torch_dtype")
    return architecture._replace(family=kind, dtype=str(dtype or architecture.dtype))


def _vision_tower(vision: Config, hidden: int, kind: str) -> Tower | None:
    width = vision.get("embed_dim" if kind == "qwen2_vl" else "hidden_size")
    depth = vision.get("num_hidden_layers") or vision.get("depth")
    if not isinstance(width, int) or not isinstance(depth, int):
        return None
    heads = _number(vision, "num_attention_heads", "num_heads", default=16)
    inner = vision.get("intermediate_size")
    if not isinstance(inner, int):
        inner = int(width * float(vision.get("mlp_ratio", 4)))
    image = _number(vision, "image_size", default=0)
    patch = _number(vision, "patch_size", default=14)
    names = ("q_proj", "k_proj", "v_proj", "out_proj", "fc1", "fc2")
    gated = kind in ("qwen2_5_vl",)
    layer = _encoder_layer(
        width, heads, inner, str(vision.get("hidden_act", "gelu")), names, dropout=0.0
    )
    if gated:
        layer = layer._replace(
            mlp=Mlp(
                gated=True,
                inner=inner,
                activation="silu",
                projections=(
                    Linear("gate_proj", width, inner, True),
                    Linear("up_proj", width, inner, True),
                    Linear("down_proj", inner, width, True),
                ),
            )
        )
    channels = _number(vision, "num_channels", "in_channels", "in_chans", default=3)
    temporal = _number(vision, "temporal_patch_size", default=1)
    other = patch * patch * channels * temporal * width + width
    if image:
        other += ((image // patch) ** 2) * width + 2 * width
    merge = _number(vision, "spatial_merge_size", default=1) ** 2
    if merge > 1:
        other += (merge * width) ** 2 + merge * width * hidden + merge * width + hidden
    elif kind in ("paligemma", "gemma3"):
        other += width * hidden
    else:
        other += width * hidden + hidden * hidden + 2 * hidden
    tokens = (image // patch) ** 2 if image else 0
    return Tower("vision tower", width, ((layer, depth),), other_parameters=other, tokens=tokens)


Reader = Callable[[Config, str], Architecture]
_READERS: dict[str, Reader] = {
    "baichuan": _baichuan,
    "falcon": _falcon,
    "RefinedWeb": _falcon,
    "RefinedWebModel": _falcon,
    "bert": _bert,
    "roberta": _bert,
    "xlm-roberta": _bert,
    "camembert": _bert,
    "electra": _bert,
    "distilbert": _bert,
    "mpnet": _bert,
    "deberta-v2": _bert,
    "vit": _vit,
    "deit": _vit,
    "t5": _t5,
    "mt5": _t5,
    "bart": _bart,
    "mbart": _bart,
    "pegasus": _bart,
    "marian": _bart,
    "m2m_100": _bart,
    "whisper": _bart,
}
