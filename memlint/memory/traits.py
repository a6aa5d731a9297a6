"""What sets each family of decoders apart, as data: norms, biases, names of maps."""

from __future__ import annotations

from collections.abc import Mapping

from memlint.source.record import Record

# Llama's names of the linear maps.
_LLAMAS_OWN: Mapping[str, str] = {}


class Traits(Record):
    """What sets a family of decoders apart; by default, Llama."""

    qkv_bias: bool = False
    out_bias: bool = False
    mlp_bias: bool = False
    norm: str = "rms"
    norm_bias: bool = False
    norms: int = 2
    parallel: bool = False
    gated: bool = True
    activation: str = "silu"
    tied: bool = False
    query_norm: bool = False
    rotary_share: float = 1.0
    names: Mapping[str, str] = _LLAMAS_OWN
    fused_qkv: str = ""
    fused_gate: str = ""
    head_bias: bool = False
    learned_positions: int = 0
    softcap: bool = False
    rotary: bool = True


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

# Layer norms, and a bias on every map of attention and of the plain MLP.
_BIASED = Traits(
    qkv_bias=True, out_bias=True, mlp_bias=True, norm="layer", norm_bias=True, gated=False
)
_GPT2_TRAITS = _BIASED._replace(
    tied=True,
    activation="gelu_new",
    rotary=False,
    fused_qkv="c_attn",
    names=_GPT2,
    learned_positions=1,
)
# One norm for attention and MLP, which run side by side.
_GPTJ_TRAITS = Traits(
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
)
_GEMMA2_TRAITS = Traits(norm="gemma", tied=True, norms=4, activation="gelu_pytorch_tanh")

TRAITS: dict[str, Traits] = {
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
    "gemma2": _GEMMA2_TRAITS._replace(softcap=True),
    "gemma3_text": _GEMMA2_TRAITS._replace(query_norm=True),
    "gemma3": _GEMMA2_TRAITS._replace(query_norm=True),
    "phi": _BIASED._replace(
        norms=1,
        parallel=True,
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
    "starcoder2": _BIASED._replace(
        tied=True,
        activation="gelu_pytorch_tanh",
        names={"up_proj": "c_fc", "down_proj": "c_proj"},
    ),
    "gpt_neox": _BIASED._replace(
        parallel=True,
        activation="gelu",
        rotary_share=0.25,
        fused_qkv="query_key_value",
        names=_NEOX,
    ),
    "gpt2": _GPT2_TRAITS,
    "gpt_bigcode": _GPT2_TRAITS._replace(activation="gelu_pytorch_tanh"),
    "gptj": _GPTJ_TRAITS,
    "codegen": _GPTJ_TRAITS._replace(fused_qkv="qkv_proj"),
    "gpt_neo": _GPT2_TRAITS._replace(
        qkv_bias=False,
        fused_qkv="",
        names={"o_proj": "out_proj", "up_proj": "c_fc", "down_proj": "c_proj"},
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
    "opt": _BIASED._replace(
        tied=True,
        activation="relu",
        rotary=False,
        names={"o_proj": "out_proj", "up_proj": "fc1", "down_proj": "fc2"},
        learned_positions=1,
    ),
    "bloom": _BIASED._replace(
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
