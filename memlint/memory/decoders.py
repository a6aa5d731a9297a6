"""Decoders: their layers of attention and feed-forward maps, read from a configuration."""

from itertools import groupby
from typing import Any

from memlint.api.knowledge.model_types import ModelType
from memlint.memory.architecture import Architecture, Attention, Layer, Linear, Mlp
from memlint.memory.config_values import Config, number


def decoder(config: Config, row: ModelType) -> Architecture:
    """Decoders that share Llama's keys."""
    hidden = number(config, "hidden_size", "n_embd", "d_model", "dim")
    positions = number(config, "max_position_embeddings", "n_positions", "seq_length", default=0)
    layered = config.get("normalization_type") == "layernorm" or bool(config.get("use_layernorm"))
    embedding_dim = number(config, "word_embed_proj_dim", default=hidden)
    other = 0 if row.position_rows is None else (positions + row.position_rows) * hidden
    if embedding_dim != hidden:
        other += 2 * embedding_dim * hidden
    if row.embedding_norm:
        other += 2 * hidden
    return Architecture(
        family=row.name,
        hidden=hidden,
        vocabulary=number(config, "padded_vocab_size", "vocab_size", default=0),
        layers=_Layers(config, row, hidden).runs(),
        norm="layer" if layered else row.norm,
        norm_bias=layered or row.norm_bias,
        tied=bool(config.get("tie_word_embeddings")),
        embedding_dim=embedding_dim,
        other_parameters=other,
        head_bias=row.head_bias,
        max_positions=positions,
        logit_softcap=bool(config.get("final_logit_softcapping")),
        logit_scale=row.logit_scale,
    )


def falcon(config: Config, row: ModelType) -> Architecture:
    """Falcon: parallel blocks, one or two norms, multi-query or grouped keys."""
    grouped = bool(config.get("new_decoder_architecture"))
    heads = number(config, "num_attention_heads", "n_head")
    keys = 1 if config["multi_query"] else heads
    if grouped:
        keys = number(config, "num_kv_heads", "n_head_kv", default=heads)
    parallel = grouped or bool(config.get("parallel_attn", True))
    bias = bool(config.get("bias"))
    shared = {
        "num_key_value_heads": keys,
        "new_decoder_architecture": False,
        "multi_query": False,
        "attention_out_bias": bias,
        "mlp_bias": bias,
    }
    norms = 2 if not parallel or (grouped and config.get("num_ln_in_parallel_attn") != 1) else 1
    return decoder({**config, **shared}, row._replace(parallel=parallel, norms=norms))


class _Layers:
    def __init__(self, config: Config, row: ModelType, hidden: int) -> None:
        self.config = config
        self.row = row
        self.hidden = hidden
        names = ("hidden_activation", "hidden_act", "activation_function")
        self.activation = str(next(filter(None, map(config.get, names)), row.activation))

    def runs(self) -> tuple[tuple[Layer, int], ...]:
        """The layers in order, neighbours of the same kind and experts as one with a count."""
        depth = number(self.config, "num_hidden_layers", "n_layer", "num_layers", "n_layers")
        kinds = [(self._kind(index), self._experts(index)) for index in range(depth)]
        layers = {kind: self._layer(*kind) for kind in dict.fromkeys(kinds)}
        runs = groupby(layers[kind] for kind in kinds)
        return tuple((layer, sum(1 for _ in same)) for layer, same in runs)

    def _number(self, *names: str, default: int | None = None) -> int:
        return number(self.config, *names, default=default)

    def _share(self, *names: str) -> float:
        """The first of these numbers that is not zero."""
        return float(next(filter(None, map(self.config.get, names)), 0.0))

    def _linear(
        self, name: str, inputs: int, outputs: int, bias: bool = False, experts: int = 1
    ) -> Linear:
        return Linear(self.row.names.get(name, name), inputs, outputs, bias, experts)

    def _layer(self, kind: str, experts: int) -> Layer:
        row = self.row
        return Layer(
            attention=self._attention(kind),
            mlp=self._mixture(experts) if experts else self._mlp(),
            norms=row.norms,
            parallel=row.parallel and bool(self.config.get("use_parallel_residual", True)),
            dropout=0.0 if row.gated else self._share("resid_pdrop", "hidden_dropout"),
        )

    def _kind(self, index: int) -> str:
        """How a layer mixes tokens."""
        config, row = self.config, self.row
        types = config.get("layer_types")
        if isinstance(types, list) and index < len(types) and types[index]:
            return str(types[index])
        if row.every:
            every = self._number(row.every_key, default=row.every)
            return row.between if (index + 1) % every else "full_attention"
        attending = config.get("full_attn_idxs")
        if isinstance(attending, list):
            return "full_attention" if index in attending else "conv"
        slides = row.slides and config.get("sliding_window")
        return "sliding_attention" if slides else "full_attention"

    def _attention(self, kind: str) -> Attention:
        if kind == "conv":
            return self._convolution()
        if kind in ("linear_attention", "mamba"):
            return self._linear_attention()
        if self.config.get("kv_lora_rank"):
            return self._latent()
        return self._softmax(sliding=kind in ("sliding_attention", "chunked_attention"))

    def _softmax(self, *, sliding: bool) -> Attention:
        config, row, hidden = self.config, self.row, self.hidden
        heads = self._number("num_attention_heads", "n_head", "n_heads", "num_heads")
        keys = self._key_heads(heads)
        head = self._number("head_dim", "kv_channels", default=hidden // heads)
        bias, out_bias = self._biases()
        wide = heads * head * (2 if row.output_gate else 1)
        maps = {"q_proj": wide, "k_proj": keys * head, "v_proj": keys * head}
        if row.fused_qkv:
            maps = {row.fused_qkv: (heads + 2 * keys) * head}
        normed = {"head": 2 * head, "whole": (heads + keys) * head, "": 0}[row.query_norm]
        window = self._number("sliding_window", "attention_chunk_size", default=0)
        alibi = bool(config.get("alibi")) or 0 < row.alibi_from <= hidden
        share = self._share("partial_rotary_factor", "rotary_pct") or row.rotary_share
        if row.rotary_dim and "rotary_dim" in config:
            share = int(config["rotary_dim"] or head) / head
        return Attention(
            kind="sliding" if sliding else "full",
            heads=heads,
            key_heads=keys,
            key_dim=head,
            value_dim=head,
            window=window if sliding else 0,
            rotary=row.rotary and not alibi,
            rotary_share=share,
            query_norm=bool(row.query_norm),
            output_gate=row.output_gate,
            projections=(
                *(Linear(name, hidden, width, bias) for name, width in maps.items()),
                self._linear("o_proj", heads * head, hidden, out_bias),
            ),
            other_parameters=normed + (heads if row.sinks else 0),
            dropout=self._share("attention_dropout", "attn_pdrop"),
            softcap=bool(config.get("attn_logit_softcapping")),
        )

    def _biases(self) -> tuple[bool, bool]:
        """True if the maps into attention have biases, and whether the one out of it has."""
        config, row = self.config, self.row
        requested = bool(config.get(row.bias_key))
        out_bias = bool(config.get("attention_out_bias")) or (row.out_bias_too and requested)
        if row.bias is not None:
            return row.bias, out_bias
        return requested or bool(config.get("add_qkv_bias")), out_bias

    def _key_heads(self, heads: int) -> int:
        config = self.config
        if config.get("multi_query_attention") is True and "multi_query_group_num" in config:
            return int(config["multi_query_group_num"])
        if config.get("new_decoder_architecture"):
            return self._number("num_kv_heads", default=heads)
        if config.get("multi_query"):
            return 1
        return self._number("num_key_value_heads", "num_kv_heads", default=heads)

    def _latent(self) -> Attention:
        """Multi-head latent attention (DeepSeek V2 and V3)."""
        hidden = self.hidden
        heads = self._number("num_attention_heads")
        rope = self._number("qk_rope_head_dim", default=64)
        plain = self._number("qk_nope_head_dim", default=128)
        value = self._number("v_head_dim", default=128)
        latent = self._number("kv_lora_rank")
        query = self._number("q_lora_rank", default=0)
        width = heads * (rope + plain)
        first: tuple[Linear, ...] = (Linear("q_proj", hidden, width),)
        if query:
            first = (Linear("q_a_proj", hidden, query), Linear("q_b_proj", query, width))
        return Attention(
            kind="latent",
            heads=heads,
            key_heads=heads,
            key_dim=rope + plain,
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
        )

    def _convolution(self) -> Attention:
        """A short convolution (LFM2)."""
        hidden = self.hidden
        return Attention(
            kind="convolution",
            projections=(Linear("in_proj", hidden, 3 * hidden), Linear("out_proj", hidden, hidden)),
            other_parameters=hidden * self._number("conv_L_cache", default=3),
            convolution=hidden,
        )

    def _linear_attention(self) -> Attention:
        """A gated delta rule layer (Qwen3-Next, Qwen3.5)."""
        keys = self._number("linear_num_key_heads", default=16)
        values = self._number("linear_num_value_heads", default=32)
        key = self._number("linear_key_head_dim", default=128)
        value = self._number("linear_value_head_dim", default=128)
        kernel = self._number("linear_conv_kernel_dim", default=4)
        inner = values * value
        width = 2 * keys * key + inner
        maps = {"in_proj_qkvz": width + inner, "in_proj_ba": 2 * values}
        if self.row.split_projections:
            maps = {"in_proj_qkv": width, "in_proj_z": inner}
            maps |= {"in_proj_b": values, "in_proj_a": values}
        return Attention(
            kind="linear",
            heads=values,
            key_heads=keys,
            key_dim=key,
            value_dim=value,
            projections=(
                *(Linear(name, self.hidden, outputs) for name, outputs in maps.items()),
                Linear("out_proj", inner, self.hidden),
            ),
            other_parameters=width * kernel + 2 * values + value,
            convolution=width,
        )

    def _inner(self) -> int:
        """The width of the feed-forward part."""
        config, hidden = self.config, self.hidden
        ratio: Any = config.get("mlp_ratio") or config.get("expansion_ratio") or 4
        names = ("intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size", "inner_hidden_size")
        inner = self._number(*names, default=0) or int(ratio * hidden)
        if config.get("block_auto_adjust_ff_dim"):
            # Two thirds, times a factor, rounded up (as in Llama's first code).
            wide = int(2 * inner / 3 * float(config.get("block_ffn_dim_multiplier") or 1.0))
            step = self._number("block_multiple_of", default=256)
            return -(-wide // step) * step
        return inner // 2 if self.row.halved else inner

    def _mlp(self) -> Mlp:
        row, hidden, inner = self.row, self.hidden, self._inner()
        bias = bool(self.config.get("mlp_bias"))
        if row.gated and row.fused_gate:
            maps: tuple[Linear, ...] = (Linear(row.fused_gate, hidden, 2 * inner, bias),)
        else:
            names = ("gate_proj", "up_proj") if row.gated else ("up_proj",)
            maps = tuple(self._linear(name, hidden, inner, bias) for name in names)
        return Mlp(
            activation=self.activation,
            projections=(*maps, self._linear("down_proj", inner, hidden, bias)),
            fused_gate=bool(row.fused_gate),
        )

    def _experts(self, index: int) -> int:
        config = self.config
        names = ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts")
        count = self._number(*names, default=0)
        if not count or index < self._number("first_k_dense_replace", default=0):
            return 0
        every = ("decoder_sparse_step", "interleave_moe_layer_step")
        steps = [max(self._number(name, default=1), 1) for name in every]
        dense = config.get("mlp_only_layers")
        if any((index + 1) % step for step in steps):
            return 0
        return 0 if isinstance(dense, list) and index in dense else count

    def _mixture(self, experts: int) -> Mlp:
        """Experts, a router, and what all tokens share."""
        row, hidden, bias = self.row, self.hidden, self.row.expert_bias
        inner = self._number("moe_intermediate_size", default=0) or self._inner()
        shared = self._number("shared_expert_intermediate_size", default=0)
        if not shared:
            shared = inner * self._number("n_shared_experts", "num_shared_experts", default=0)
        other = experts * hidden + (experts if row.router_bias else 0)

        def maps(wide: int) -> tuple[tuple[str, int, int], ...]:
            first = (("gate_proj", hidden, wide), ("up_proj", hidden, wide))
            return (*first, ("down_proj", wide, hidden)) if wide else ()

        return Mlp(
            activation=self.activation,
            projections=tuple(self._linear(*one, bias, experts) for one in maps(inner)),
            experts=experts,
            experts_per_token=self._number(
                *("num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_k"), default=2
            ),
            shared=tuple(Linear(f"shared_expert.{name}", i, o) for name, i, o in maps(shared)),
            other_parameters=other + (hidden if shared and row.shared_gate else 0),
        )
