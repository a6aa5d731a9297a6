"""What a model is made of, as far as memory goes: layers, their linear maps, their attention.

An ``Architecture`` is read from a ``config.json`` (``families``) and knows nothing of training.
Shapes: T tokens, D hidden, H query heads, K key/value heads, E experts.
"""

from memlint.source.record import Record


class Linear(Record):
    """A weight matrix applied to every token: ``name`` as PEFT's ``target_modules`` match it."""

    name: str
    inputs: int
    outputs: int
    bias: bool = False
    experts: int = 1

    @property
    def weights(self) -> int:
        return self.inputs * self.outputs * self.experts

    @property
    def parameters(self) -> int:
        return self.weights + (self.outputs * self.experts if self.bias else 0)


class Attention(Record):
    """How a layer mixes tokens.

    kind: ``full``, ``sliding``, ``chunked``, ``latent`` (MLA), ``linear`` (gated delta rule),
        ``state`` (Mamba) or ``none``.
    key_dim, value_dim: per head. ``value_heads``: of linear attention.
    projections: its linear maps, in the order of the forward pass.
    softcap: whether its scores go through tanh, which torch's sdpa cannot.
    """

    kind: str = "full"
    heads: int = 1
    key_heads: int = 1
    key_dim: int = 64
    value_dim: int = 64
    window: int = 0
    rotary: bool = True
    rotary_share: float = 1.0
    query_norm: bool = False
    output_gate: bool = False
    causal: bool = True
    projections: tuple[Linear, ...] = ()
    other_parameters: int = 0
    convolution: int = 0
    latent: int = 0
    query_latent: int = 0
    dropout: float = 0.0
    softcap: bool = False


class Mlp(Record):
    """The feed-forward part: gate, up, down or up, down; maybe with experts."""

    activation: str = "silu"
    projections: tuple[Linear, ...] = ()
    experts: int = 0
    experts_per_token: int = 0
    shared: tuple[Linear, ...] = ()
    fused_gate: bool = False
    other_parameters: int = 0


class Layer(Record):
    """One block. ``norms``: how many norms of width D it has (2, or 4 with sandwich norms)."""

    attention: Attention
    mlp: Mlp
    norms: int = 2
    parallel: bool = False
    cross: Attention | None = None
    dropout: float = 0.0

    @property
    def linears(self) -> tuple[Linear, ...]:
        cross = self.cross.projections if self.cross else ()
        return (*self.attention.projections, *cross, *self.mlp.projections, *self.mlp.shared)


class Tower(Record):
    """A stack of layers that feeds another: an encoder, a vision tower.

    tokens: how many it has for each example (0: as many as the text has).
    """

    name: str
    hidden: int
    layers: tuple[tuple[Layer, int], ...]
    norm: str = "layer"
    other_parameters: int = 0
    tokens: int = 0
    trainable: bool = True

    @property
    def parameters(self) -> int:
        norm = self.hidden * (2 if self.norm == "layer" else 1)
        layers = (
            count
            * (
                layer.norms * norm
                + layer.attention.other_parameters
                + layer.mlp.other_parameters
                + sum(one.parameters for one in layer.linears)
            )
            for layer, count in self.layers
        )
        return sum(layers) + self.other_parameters


class Architecture(Record):
    """A model.

    layers: runs of equal layers with their counts, in order.
    norm: ``rms``, ``layer`` or ``gemma`` (an RMS norm computed wholly in float32).
    norm_bias: whether norms have a bias. embeddings: rows of the token table.
    other_parameters: what no layer holds (position tables, pooler, projector).
    head: ``lm``, ``classes`` (of rows), ``tokens`` or ``none``; labels: outputs of a classifier.
    pattern: the layer kinds in order, as indices into ``layers``; empty when runs say it.
    unknown: keys of the configuration that matter and are not understood.
    """

    family: str
    hidden: int
    vocabulary: int
    layers: tuple[tuple[Layer, int], ...]
    norm: str = "rms"
    norm_bias: bool = False
    tied: bool = False
    head: str = "lm"
    labels: int = 2
    embedding_dim: int = 0
    other_parameters: int = 0
    head_bias: bool = False
    towers: tuple[Tower, ...] = ()
    logit_softcap: bool = False
    logit_scale: bool = False
    max_positions: int = 0
    encoder_decoder: bool = False
    quantization: str = ""
    dtype: str = ""
    unknown: tuple[str, ...] = ()

    @property
    def depth(self) -> int:
        return sum(count for _, count in self.layers)

    @property
    def softcaps_scores(self) -> bool:
        """True if attention's scores go through tanh."""
        return any(layer.attention.softcap for layer, _ in self.layers)

    @property
    def norm_parameters(self) -> int:
        if self.norm == "none":
            return 0
        return self.hidden * (2 if self.norm_bias else 1)

    def layer_parameters(self, layer: Layer) -> int:
        """Parameters of one layer, norms and all."""
        extra = layer.attention.other_parameters + layer.mlp.other_parameters
        if layer.cross:
            extra += layer.cross.other_parameters
        return (
            sum(linear.parameters for linear in layer.linears)
            + layer.norms * self.norm_parameters
            + extra
        )

    @property
    def embedding_parameters(self) -> int:
        return self.vocabulary * (self.embedding_dim or self.hidden)

    @property
    def head_parameters(self) -> int:
        """Parameters of the output matrix where it is one of its own."""
        if self.head in ("classes", "tokens"):
            return self.hidden * self.labels + (self.labels if self.head_bias else 0)
        if self.head == "none":
            return 0
        bias = self.vocabulary if self.head_bias else 0
        return bias if self.tied else self.vocabulary * self.hidden + bias

    @property
    def parameters(self) -> int:
        """All parameters."""
        return (
            sum(self.layer_parameters(layer) * count for layer, count in self.layers)
            + self.embedding_parameters
            + self.head_parameters
            + self.norm_parameters
            + self.other_parameters
            + sum(tower.parameters for tower in self.towers)
        )
