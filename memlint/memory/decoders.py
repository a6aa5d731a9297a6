"""Decoders: their layers of attention and feed-forward maps, read from a configuration."""

from __future__ import annotations

from collections.abc import Mapping

from memlint.memory.architecture import Architecture, Attention, Layer, Linear, Mlp
from memlint.memory.config_values import Config, number
from memlint.memory.traits import TRAITS, Traits


def decoder(config: Config, kind: str) -> Architecture:
    """Decoders that share Llama's keys, with their family's traits."""
    traits = TRAITS.get(kind, TRAITS["llama"])
    hidden = number(config, "hidden_size", "n_embd", "d_model", "dim")
    depth = number(config, "num_hidden_layers", "n_layer", "num_layers", "n_layers")
    vocabulary = number(config, "padded_vocab_size", "vocab_size", default=0)
    tied = bool(config.get("tie_word_embeddings", traits.tied))
    positions = number(config, "max_position_embeddings", "n_positions", "seq_length", default=0)
    norm = traits.norm
    norm_bias = traits.norm_bias
    if config.get("normalization_type") == "layernorm" or config.get("use_layernorm"):
        norm, norm_bias = "layer", True
    layers = _runs(_layers(config, kind, traits, depth, hidden))
    other = 0
    if traits.learned_positions:
        other = positions * hidden + (2 * hidden if kind == "opt" else 0)
    embedding_dim = number(config, "word_embed_proj_dim", default=hidden)
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


def _layers(config: Config, kind: str, traits: Traits, depth: int, hidden: int) -> list[Layer]:
    """The layers in order; those of the same attention and experts are equal."""
    types = config.get("layer_types")
    known: dict[tuple[str, int], Layer] = {}
    layers: list[Layer] = []
    for index in range(depth):
        layer_type = str(types[index]) if isinstance(types, list) and index < len(types) else ""
        key = (layer_type or _layer_type(config, kind, index), _experts(config, kind, index))
        if key not in known:
            known[key] = _layer(config, kind, traits, *key, hidden)
        layers.append(known[key])
    return layers


def _layer(
    config: Config, kind: str, traits: Traits, layer_type: str, experts: int, hidden: int
) -> Layer:
    return Layer(
        attention=_attention(config, kind, traits, layer_type, hidden),
        mlp=_mlp(config, kind, traits, experts, hidden),
        norms=traits.norms,
        parallel=traits.parallel and bool(config.get("use_parallel_residual", True)),
        dropout=float(config.get("resid_pdrop") or config.get("hidden_dropout") or 0.0)
        if not traits.gated
        else 0.0,
    )


def _layer_type(config: Config, kind: str, index: int) -> str:
    if kind in ("qwen3_next", "qwen3_5_text", "qwen3_5_moe_text"):
        every = number(config, "full_attention_interval", default=4)
        return "full_attention" if (index + 1) % every == 0 else "linear_attention"
    if kind == "gemma2":
        return "full_attention" if index % 2 else "sliding_attention"
    if kind in ("gemma3", "gemma3_text"):
        every = number(config, "sliding_window_pattern", default=6)
        return "full_attention" if (index + 1) % every == 0 else "sliding_attention"
    if kind == "gpt_oss":
        return "full_attention" if index % 2 else "sliding_attention"
    attending = config.get("full_attn_idxs")
    if isinstance(attending, list):
        return "full_attention" if index in attending else "conv"
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
    heads = number(config, "num_attention_heads", "n_head", "n_heads", "num_heads")
    keys = _key_heads(config, heads)
    head = number(config, "head_dim", "kv_channels", default=hidden // heads)
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
        window=number(config, "sliding_window", "attention_chunk_size", default=0)
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
    """True if the maps into attention have biases, and whether the one out of it has."""
    requested = bool(config.get("attention_bias"))
    out_bias = traits.out_bias or bool(config.get("attention_out_bias"))
    out_bias = out_bias or (requested and kind in ("llama", "granite"))
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
        return number(config, "num_kv_heads", default=heads)
    if config.get("multi_query"):
        return 1
    return number(config, "num_key_value_heads", "num_kv_heads", default=heads)


def _latent_attention(config: Config, hidden: int) -> Attention:
    """Multi-head latent attention (DeepSeek V2 and V3)."""
    heads = number(config, "num_attention_heads")
    rope = number(config, "qk_rope_head_dim", default=64)
    plain = number(config, "qk_nope_head_dim", default=128)
    value = number(config, "v_head_dim", default=128)
    latent = number(config, "kv_lora_rank")
    query = number(config, "q_lora_rank", default=0)
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
            other_parameters=hidden * number(config, "conv_L_cache", default=3),
            convolution=hidden,
        )
    keys = number(config, "linear_num_key_heads", default=16)
    values = number(config, "linear_num_value_heads", default=32)
    key = number(config, "linear_key_head_dim", default=128)
    value = number(config, "linear_value_head_dim", default=128)
    kernel = number(config, "linear_conv_kernel_dim", default=4)
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


def _mlp(config: Config, kind: str, traits: Traits, experts: int, hidden: int) -> Mlp:
    names = traits.names
    inner = number(
        config, "intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size", default=4 * hidden
    )
    if config.get("block_auto_adjust_ff_dim", kind == "lfm2"):
        inner = _adjusted(config, inner)
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


def _adjusted(config: Config, inner: int) -> int:
    """LFM2's inner width: two thirds, times a factor, rounded up (as in Llama's first code)."""
    wide = int(2 * inner / 3 * float(config.get("block_ffn_dim_multiplier") or 1.0))
    step = number(config, "block_multiple_of", default=256)
    return -(-wide // step) * step


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
    count = number(
        config, "num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts", default=0
    )
    if not count:
        return 0
    if index < number(config, "first_k_dense_replace", default=0):
        return 0
    step = number(config, "decoder_sparse_step", default=1)
    if (index + 1) % max(step, 1):
        return 0
    dense = config.get("mlp_only_layers")
    if isinstance(dense, list) and index in dense:
        return 0
    if kind == "llama4_text":
        every = number(config, "interleave_moe_layer_step", default=1)
        if (index + 1) % every:
            return 0
    return count


def _mixture(
    config: Config, kind: str, hidden: int, inner: int, experts: int, activation: str
) -> Mlp:
    """Experts, a router, and what all tokens share."""
    width = number(config, "moe_intermediate_size", default=inner)
    active = number(
        config, "num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_k", default=2
    )
    names = ("w1", "w3", "w2") if kind == "mixtral" else ("gate_proj", "up_proj", "down_proj")
    bias = kind == "gpt_oss"
    shared_width = number(config, "shared_expert_intermediate_size", default=0)
    if not shared_width:
        shared_width = width * number(config, "n_shared_experts", "num_shared_experts", default=0)
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


def baichuan(config: Config, kind: str) -> Architecture:
    """Baichuan and Baichuan2: Llama with a fused W_pack; the 13B has no rotary embedding."""
    architecture = decoder(config, kind)
    if architecture.hidden >= 5120:
        layer, count = architecture.layers[0]
        attention = layer.attention._replace(rotary=False, alibi=True)
        return architecture._replace(layers=((layer._replace(attention=attention), count),))
    return architecture


def falcon(config: Config, kind: str) -> Architecture:
    """Falcon: parallel blocks, one or two norms, multi-query or grouped keys."""
    hidden = number(config, "hidden_size")
    heads = number(config, "num_attention_heads", "n_head")
    grouped = bool(config.get("new_decoder_architecture", False))
    multi = bool(config.get("multi_query", True))
    keys = (
        number(config, "num_kv_heads", "n_head_kv", default=heads)
        if grouped
        else (1 if multi else heads)
    )
    head = hidden // heads
    bias = bool(config.get("bias", False))
    parallel = grouped or bool(config.get("parallel_attn", True))
    inner = number(config, "ffn_hidden_size", default=4 * hidden)
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
        vocabulary=number(config, "vocab_size"),
        layers=((layer, number(config, "num_hidden_layers", "n_layer")),),
        norm="layer",
        norm_bias=True,
        tied=bool(config.get("tie_word_embeddings", True)),
    )
