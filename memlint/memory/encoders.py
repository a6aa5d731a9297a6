"""Encoders, and models of an encoder and a decoder: BERT, ViT, T5, BART and their like."""

from collections.abc import Mapping

from memlint.api.knowledge.model_types import ModelType
from memlint.memory.architecture import Architecture, Attention, Layer, Linear, Mlp, Tower
from memlint.memory.config_values import Config, number

BART_NAMES = {"o_proj": "out_proj", "up_proj": "fc1", "down_proj": "fc2"}
_BERT_NAMES = {
    "q_proj": "query",
    "k_proj": "key",
    "v_proj": "value",
    **dict.fromkeys(("o_proj", "up_proj", "down_proj"), "dense"),
}


def encoder_layer(
    hidden: int,
    heads: int,
    inner: int,
    activation: str,
    names: Mapping[str, str],
    *,
    bias: bool = True,
    dropout: float = 0.1,
    gated: bool = False,
    head: int = 0,
    crosses: bool = False,
) -> Layer:
    """A layer without rotary embeddings. names: of its maps, where they are not Llama's.

    crosses: it is a decoder's, which looks at an encoder as well.
    """
    head = head or hidden // heads
    width = heads * head

    def linear(name: str, inputs: int, outputs: int) -> Linear:
        return Linear(names.get(name, name), inputs, outputs, bias)

    attention = Attention(
        heads=heads,
        key_heads=heads,
        key_dim=head,
        value_dim=head,
        rotary=False,
        causal=crosses,
        dropout=dropout,
        projections=(
            *(linear(name, hidden, width) for name in ("q_proj", "k_proj", "v_proj")),
            linear("o_proj", width, hidden),
        ),
    )
    up = ("gate_proj", "up_proj") if gated else ("up_proj",)
    maps = (*(linear(name, hidden, inner) for name in up), linear("down_proj", inner, hidden))
    return Layer(
        attention=attention,
        mlp=Mlp(activation, maps),
        norms=3 if crosses else 2,
        cross=attention if crosses else None,
        dropout=dropout,
    )


def encoder(config: Config, row: ModelType) -> Architecture:
    """Post-norm encoders of text (BERT and its kin), vision transformers."""
    hidden = number(config, "hidden_size", "dim")
    ratio = config.get("mlp_ratio")
    # A vision transformer may leave its width out.
    default = int((ratio or 4) * hidden) if row.images else None
    layer = encoder_layer(
        hidden,
        number(config, "num_attention_heads", "n_heads"),
        number(config, "intermediate_size", "hidden_dim", default=default),
        str(config.get("hidden_act", "gelu")),
        _BERT_NAMES,
        dropout=float(config.get("hidden_dropout_prob", config.get("dropout", 0.1))),
    )
    names = str((config.get("architectures") or [""])[0])
    masked = not row.images and ("MaskedLM" in names or not names)
    if row.images:
        patch = number(config, "patch_size")
        positions = (number(config, "image_size") // patch) ** 2 + 1
        other = (patch * patch * number(config, "num_channels", default=3) + 2) * hidden
    else:
        positions = number(config, "max_position_embeddings", default=512)
        pooler = hidden * hidden + hidden if row.pooler else 0
        other = number(config, "type_vocab_size", default=2) * hidden
        other += hidden * hidden + 3 * hidden if masked else pooler
    return Architecture(
        family=row.name,
        hidden=hidden,
        vocabulary=0 if row.images else number(config, "vocab_size"),
        layers=((layer, number(config, "num_hidden_layers", "n_layers")),),
        norm="layer",
        norm_bias=True,
        tied=not row.images,
        head="lm" if masked else "classes",
        head_bias=True,
        labels=labels(config),
        other_parameters=other + positions * hidden,
        max_positions=positions,
    )


def labels(config: Config) -> int:
    """Outputs of a classification head."""
    named = config.get("id2label")
    return len(named) if isinstance(named, dict) else number(config, "num_labels", default=2)


def seq2seq(config: Config, row: ModelType) -> Architecture:
    """An encoder and a decoder: with relative positions (T5), learned ones (BART), for sounds."""
    hidden = number(config, "d_model")
    names = {**row.names}
    if row.relative:
        heads, inner = (number(config, key) for key in ("num_heads", "d_ff"))
        gated = str(config.get("feed_forward_proj", "relu")).startswith("gated")
        if gated:
            names |= {"gate_proj": "wi_0", "up_proj": "wi_1"}
        depth = number(config, "num_layers")
        depths = (depth, number(config, "num_decoder_layers", default=depth))
        encoding, decoding = (
            encoder_layer(
                hidden,
                heads,
                inner,
                str(config.get("dense_act_fn") or "relu"),
                names,
                bias=False,
                dropout=float(config.get("dropout_rate", 0.1)),
                gated=gated,
                head=number(config, "d_kv"),
                crosses=crosses,
            )
            for crosses in (False, True)
        )
        other = number(config, "relative_attention_num_buckets", default=32) * heads
        below, tokens = hidden + other, 0
    else:
        encoding, decoding = (
            encoder_layer(
                hidden,
                number(config, f"{part}_attention_heads"),
                number(config, f"{part}_ffn_dim"),
                str(config.get("activation_function", "gelu")),
                names,
                dropout=float(config.get("dropout", 0.1)),
                crosses=part == "decoder",
            )
            for part in ("encoder", "decoder")
        )
        depths = (number(config, "encoder_layers"), number(config, "decoder_layers"))
        other, below, tokens = _learned_positions(config, row, hidden)
    positions = "max_target_positions" if row.sounds else "max_position_embeddings"
    norm = "rms" if row.relative else "layer"
    tower = Tower(
        "encoder", hidden, ((encoding, depths[0]),), norm, other_parameters=below, tokens=tokens
    )
    return Architecture(
        family=row.name,
        hidden=hidden,
        vocabulary=number(config, "vocab_size"),
        layers=((decoding, depths[1]),),
        norm=norm,
        norm_bias=not row.relative,
        tied=bool(config.get("tie_word_embeddings", True)) or not row.relative,
        towers=(tower,),
        other_parameters=other,
        encoder_decoder=True,
        max_positions=0 if row.relative else number(config, positions, default=0),
    )


def _learned_positions(config: Config, row: ModelType, hidden: int) -> tuple[int, int, int]:
    """Parameters beside the layers of decoder and encoder, and the encoder's tokens."""
    if not row.sounds:
        positions = (number(config, "max_position_embeddings", default=1024) + 2) * hidden
        return positions, positions + 4 * hidden, 0
    source = number(config, "max_source_positions", default=1500)
    target = number(config, "max_target_positions", default=448)
    mels = number(config, "num_mel_bins", default=80)
    convolutions = (mels + hidden) * hidden * 3 + 2 * hidden
    return target * hidden, source * hidden + convolutions + 2 * hidden, source
