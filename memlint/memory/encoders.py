"""Encoders, and models of an encoder and a decoder: BERT, ViT, T5, BART and their like."""

from __future__ import annotations

from memlint.memory.architecture import Architecture, Attention, Layer, Linear, Mlp, Tower
from memlint.memory.config_values import Config, number


def encoder_layer(
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


def bert(config: Config, kind: str) -> Architecture:
    """BERT, RoBERTa, ELECTRA, DistilBERT and their kin: post-norm encoders."""
    hidden = number(config, "hidden_size", "dim")
    heads = number(config, "num_attention_heads", "n_heads")
    inner = number(config, "intermediate_size", "hidden_dim")
    dropout = float(config.get("hidden_dropout_prob", config.get("dropout", 0.1)))
    layer = encoder_layer(
        hidden, heads, inner, str(config.get("hidden_act", "gelu")), _BERT, dropout=dropout
    )
    positions = number(config, "max_position_embeddings", default=512)
    typed = kind not in ("distilbert", "deberta-v2")
    types = number(config, "type_vocab_size", default=2) if typed else 0
    pooler = 0 if kind == "distilbert" else hidden * hidden + hidden
    names = str((config.get("architectures") or [""])[0])
    masked = "MaskedLM" in names or not names
    transform = hidden * hidden + 3 * hidden if masked else 0
    return Architecture(
        family=kind,
        hidden=hidden,
        vocabulary=number(config, "vocab_size"),
        layers=((layer, number(config, "num_hidden_layers", "n_layers")),),
        norm="layer",
        norm_bias=True,
        tied=True,
        head="lm" if masked else "classes",
        head_bias=True,
        labels=number(config, "num_labels", default=2),
        other_parameters=(positions + types) * hidden + (transform if masked else pooler),
        max_positions=positions,
    )


def vit(config: Config, kind: str) -> Architecture:
    """A vision transformer with a classification head."""
    hidden = number(config, "hidden_size", default=768)
    heads = number(config, "num_attention_heads", default=12)
    inner = number(config, "intermediate_size", default=4 * hidden)
    image = number(config, "image_size", default=224)
    patch = number(config, "patch_size", default=16)
    channels = number(config, "num_channels", default=3)
    tokens = (image // patch) ** 2 + 1
    layer = encoder_layer(
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
        layers=((layer, number(config, "num_hidden_layers", default=12)),),
        norm="layer",
        norm_bias=True,
        head="classes",
        head_bias=True,
        labels=len(labels) if isinstance(labels, dict) else number(config, "num_labels", default=2),
        other_parameters=patch * patch * channels * hidden + hidden + hidden + tokens * hidden,
        max_positions=tokens,
    )


def t5(config: Config, kind: str) -> Architecture:
    """T5, Flan-T5, mT5: encoder and decoder, relative positions."""
    hidden = number(config, "d_model")
    heads = number(config, "num_heads")
    inner = number(config, "d_ff")
    head = number(config, "d_kv")
    gated = str(config.get("feed_forward_proj", "relu")).startswith("gated")
    names = ("q", "k", "v", "o", "wi", "wo")
    activation = str(config.get("dense_act_fn") or "relu")
    dropout = float(config.get("dropout_rate", 0.1))

    def layer(cross: bool) -> Layer:
        return encoder_layer(
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

    depth = number(config, "num_layers")
    decoder = number(config, "num_decoder_layers", default=depth)
    buckets = number(config, "relative_attention_num_buckets", default=32)
    return Architecture(
        family=kind,
        hidden=hidden,
        vocabulary=number(config, "vocab_size"),
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


def bart(config: Config, kind: str) -> Architecture:
    """BART, mBART, Pegasus, Marian, NLLB, Whisper: encoder and decoder with learned positions."""
    hidden = number(config, "d_model")
    dropout = float(config.get("dropout", 0.1))
    activation = str(config.get("activation_function", "gelu"))
    names = ("q_proj", "k_proj", "v_proj", "out_proj", "fc1", "fc2")
    encoder = encoder_layer(
        hidden,
        number(config, "encoder_attention_heads"),
        number(config, "encoder_ffn_dim"),
        activation,
        names,
        dropout=dropout,
    )
    decoder = encoder_layer(
        hidden,
        number(config, "decoder_attention_heads"),
        number(config, "decoder_ffn_dim"),
        activation,
        names,
        dropout=dropout,
        causal=True,
        cross=True,
        norms=3,
    )
    if kind == "whisper":
        mels = number(config, "num_mel_bins", default=80)
        source = number(config, "max_source_positions", default=1500)
        target = number(config, "max_target_positions", default=448)
        conv = (mels + hidden) * hidden * 3 + 2 * hidden
        encoder_other = source * hidden + conv + 2 * hidden
        other, tokens = target * hidden, source
    else:
        positions = number(config, "max_position_embeddings", default=1024) + 2
        encoder_other = positions * hidden + 2 * hidden + 2 * hidden
        other, tokens = positions * hidden + 2 * hidden - 2 * hidden, 0
    return Architecture(
        family=kind,
        hidden=hidden,
        vocabulary=number(config, "vocab_size"),
        layers=((decoder, number(config, "decoder_layers")),),
        norm="layer",
        norm_bias=True,
        tied=True,
        towers=(
            Tower(
                "encoder",
                hidden,
                ((encoder, number(config, "encoder_layers")),),
                other_parameters=encoder_other,
                tokens=tokens,
            ),
        ),
        other_parameters=other,
        encoder_decoder=True,
        max_positions=number(config, "max_position_embeddings", default=0),
    )
