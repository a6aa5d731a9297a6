"""What sets each ``model_type`` of transformers apart: the rows of ``model_types.json``.

Sources: ``configuration_*.py`` and ``modeling_*.py`` of transformers, and of the models' own
repositories (ChatGLM-6B, Qwen, Baichuan, phi-1.5's first code, OLMo's own, DBRX).
"""

import json
import os
from collections.abc import Mapping
from functools import cache
from typing import Any

from memlint.source.bounded import read_regular
from memlint.source.record import Record

_NOTHING: Mapping[str, Any] = {}


class ModelType(Record):
    """A row: by default, a decoder like Llama.

    reader: which function reads its configuration: ``decoder``, ``falcon``, ``encoder``,
        ``seq2seq``, ``inside`` (a language model inside) or ``states`` (not modelled).
    config: what its configurations leave out. moved: keys by the name that other families share,
        with their place in its configurations. older: a key that marks another row.
    names: of the linear maps where they are not Llama's; fused_qkv, fused_gate: joined ones.
    norm: ``rms``, ``layer``, ``gemma`` or ``none``; norms: of a layer. parallel: attention and MLP
        side by side. gated: three maps of the MLP; halved: its width counts two of them.
    query_norm: of each ``head``, or of the ``whole`` query. output_gate: half of the query gates.
    bias: of query, key and value; None: by ``bias_key``. out_bias_too: so is the output's.
    position_rows: rows of the learned position table beyond the positions; None: no table.
    alibi_from: the hidden size from which rotary embeddings give way. rotary_dim: a key says it.
    every, every_key, between: each so many layers attend to all; what those between do.
    slides: a window counts for all layers.
    expert_bias, router_bias, shared_gate: parameters of mixtures. split_projections: of linear
        attention. sinks: one number for each head.
    images, sounds, relative, pooler: of encoders. text, vision_width, vision_gated, projector: of
        models that see. loss_dtype: ``own`` where it computes its loss in the logits' dtype.
    narrow_softmax, post_norm, stored, keeps_cache: how it computes and how it is published.
    """

    name: str
    reader: str = "decoder"
    config: Mapping[str, Any] = _NOTHING
    moved: Mapping[str, str] = _NOTHING
    older: tuple[str, str] = ("", "")
    names: Mapping[str, str] = _NOTHING
    fused_qkv: str = ""
    fused_gate: str = ""
    norm: str = "rms"
    norm_bias: bool = False
    norms: int = 2
    parallel: bool = False
    gated: bool = True
    halved: bool = False
    activation: str = "silu"
    query_norm: str = ""
    output_gate: bool = False
    bias: bool | None = None
    bias_key: str = "attention_bias"
    out_bias_too: bool = False
    head_bias: bool = False
    position_rows: int | None = None
    embedding_norm: bool = False
    rotary: bool = True
    rotary_share: float = 1.0
    rotary_dim: bool = False
    alibi_from: int = 0
    every: int = 0
    every_key: str = ""
    between: str = "sliding_attention"
    slides: bool = False
    sinks: bool = False
    expert_bias: bool = False
    router_bias: bool = False
    shared_gate: bool = False
    split_projections: bool = False
    logit_scale: bool = False
    images: bool = False
    sounds: bool = False
    relative: bool = False
    pooler: bool = True
    text: str = "llama"
    vision_width: str = "hidden_size"
    vision_gated: bool = False
    projector: str = ""
    loss_dtype: str = ""
    narrow_softmax: bool = False
    post_norm: bool = False
    stored: str = ""
    keeps_cache: bool = False


@cache
def _table() -> dict[str, Any]:
    path = os.path.join(os.path.dirname(__file__), "model_types.json")
    table: dict[str, Any] = json.loads(read_regular(path))
    return table


@cache
def _rows() -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in _table()["model_types"]}


def default_sizes(name: str) -> Mapping[str, Any]:
    """Return what the configuration's class of a ``model_type`` says of sizes where nobody does,
    without what it derives from others; empty where that is not known."""
    sizes: Mapping[str, Any] = _table()["defaults"].get(name, _NOTHING)
    return sizes


def is_listed(name: str) -> bool:
    """True if the table has a row of this name."""
    return name in _rows()


def type_of_class(name: str) -> str:
    """Return ``gpt_neox`` of ``GPTNeoXConfig``; empty where no row has the name."""
    plain = name.removesuffix("Config").lower()
    return next((one for one in _rows() if one.replace("_", "").replace("-", "") == plain), "")


def usual_name(name: str) -> str:
    """Return the name of the row that counts for a ``model_type``."""
    return str(_rows().get(name, {}).get("same", name))


@cache
def model_type(name: str) -> ModelType:
    """Return the row of a name; Llama's traits where there is none."""
    row = dict(_rows().get(name, {}))
    base = model_type(row.pop("like")) if "like" in row else ModelType("")
    config = {**base.config, **row.pop("config", {})}
    older = tuple(row.pop("older", base.older))
    return base._replace(**{**row, "name": name, "config": config, "older": older})
