"""The bytes of a model's weights: dtypes, quantization constants, adapters, by layer.

Quantized formats: bitsandbytes nf4 and fp4 (blocks of 64, one float32 scale each, or nested: one
byte each and a float32 for 256 of them), int8 (one float32 for each output), GPTQ and AWQ (groups
of 128: a 16-bit scale and a packed zero for each output; GPTQ also a group index for each input),
and those of ``PACKED``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from memlint.memory import facts
from memlint.memory.architecture import Architecture, Layer, Linear
from memlint.memory.linear_maps import Weight, Weights
from memlint.memory.settings import PACKED, QUANTIZATIONS, Lora, Quantization, Settings, dtype_width
from memlint.source.kept import kept
from memlint.source.record import Record

_GROUP = 128
_MOST_REPEATS = 6  # of a regular expression over names of modules
_BITSANDBYTES = ("nf4", "fp4", "int8")
_BLOCK = 64

# Other tools' names for the same maps (litgpt, Megatron), as PEFT's.
_SYNONYMS = {
    "query": ("q_proj", "query"),
    "key": ("k_proj", "key"),
    "value": ("v_proj", "value"),
    "projection": ("o_proj", "dense"),
    "proj": ("o_proj",),
    "mlp": (
        *("gate_proj", "up_proj", "down_proj", "fc1", "fc2", "gate_up_proj", "dense_h_to_4h"),
        *("dense_4h_to_h", "w1", "w2", "w3"),
    ),
    "head": ("lm_head",),
    "output_proj": ("o_proj",),
    "out_proj": ("o_proj", "out_proj"),
    "wte": ("embed_tokens",),
    "embed_tokens": ("embed_tokens",),
    "qkv": ("q_proj", "k_proj", "v_proj"),
    "linear_qkv": ("q_proj", "k_proj", "v_proj"),
}
_FUSED = ("query_key_value", "c_attn", "qkv_proj", "W_pack", "Wqkv", "wqkv")
_PARTS = ("q_proj", "k_proj", "v_proj")
_PARENTS = ("self_attn", "mlp", "attention", "self_attention", "attn", "mlp.experts.0")


def quantized_bytes(linear: Linear, quantization: Quantization) -> int:
    """Bytes of one quantized weight with its constants."""
    numel = linear.weights
    kind = quantization.type or ""
    if kind == "int8":
        return numel + 4 * linear.outputs * linear.experts
    bits = quantization.bits or 4
    if kind in PACKED:
        usual, constants, group = PACKED[kind]
        return int(numel * ((quantization.bits or usual) / 8 + constants / group))
    if kind in ("gptq", "awq"):
        groups = -(-linear.inputs // _GROUP)
        scales = groups * linear.outputs * (2 + bits / 8)
        index = 4 * linear.inputs if kind == "gptq" else 0
        return int((numel * bits / 8) + (scales + index) * linear.experts)
    blocks = -(-numel // _BLOCK)
    if quantization.double_quant:
        return numel // 2 + blocks + 4 * (-(-blocks // 256)) + 1024
    return numel // 2 + 4 * blocks


def matches(name: str, targets: tuple[str, ...] | str) -> bool:
    """True if PEFT's ``target_modules`` select a linear map of this name."""
    if isinstance(targets, str):
        if targets == "all-linear":
            return name not in ("lm_head", "embed_tokens")
        if not re.fullmatch(r"[\w.,| ]*", targets):
            return _matches_pattern(name, targets)
        targets = tuple(part.strip() for part in re.split(r"[|,]", targets) if part.strip())
    last = name.rpartition(".")[2]
    for target in targets:
        short = target.rpartition(".")[2]
        if short in (name, last) or last in _SYNONYMS.get(short, ()):
            return True
        if last in _FUSED and (short in _PARTS or _SYNONYMS.get(short, ("",))[0] in _PARTS):
            return True
    return False


def _matches_pattern(name: str, pattern: str) -> bool:
    """True if a regular expression over full module names selects a linear map of this name."""
    # A repeated group, or many repetitions, may try a name in more ways than there is time for.
    if re.search(r"\)[*+{]", pattern) or len(re.findall(r"[*+{]", pattern)) > _MOST_REPEATS:
        return False
    try:
        found = re.compile(pattern)
    except (re.error, OverflowError, RecursionError):
        return False
    paths = (name, f"model.{name}", *(f"model.layers.0.{part}.{name}" for part in _PARENTS))
    return any(found.fullmatch(path) for path in paths)


def frozen_bytes(architecture: Architecture, stored: str, versions: Mapping[str, str]) -> int:
    """Bytes of the weights of a model that nothing trains, stored in a dtype or quantized."""
    if stored not in QUANTIZATIONS:
        return architecture.parameters * dtype_width(stored)
    quantization = Quantization(bits=8 if stored in ("int8", "fp8") else 4, type=stored)
    settings = Settings("", method="qlora", quantization=quantization, versions=versions)
    holding = Holding(architecture, settings)
    layers = (
        holding.layer(layer, architecture.norm_parameters).base * count
        for layer, count in architecture.layers
    )
    return sum(layers) + holding.embedding().base + holding.head().base


class Held(Record):
    """How one linear map is held, with its bytes.

    base: bytes of the weight and bias, bias: of the bias; adapter: numbers of its adapter.
    """

    weight: Weight
    base: int
    adapter: int
    bias: int


class Holding:
    """How every weight of the model is held, by the settings."""

    def __init__(self, architecture: Architecture, settings: Settings) -> None:
        self.architecture = architecture
        self.settings = settings
        self.width = dtype_width(settings.weights_dtype or "bfloat16")
        self.compute = dtype_width(settings.compute_dtype or "bfloat16")
        # Sharded weights are gathered in the compute dtype.
        sharded = settings.sharding in ("fsdp", "fsdp2", "zero3")
        self.working = min(self.width, self.compute) if sharded else self.width
        whole = settings.method == "full"
        self.full = whole and settings.frozen != "backbone"
        self.head_alone = whole != self.full
        self.lora: Lora | None = settings.lora if not whole else None
        self.quantization = settings.quantization
        self.prepared = not sharded and self._asks_for_preparation()
        # PEFT's preparation casts every 16-bit parameter that is not quantized to float32.
        self.other_width = 4 if self.prepared else self.width
        adapter = self.lora or Lora()
        self.adapter_width = dtype_width(adapter.dtype or "float32")
        self.dora, self.frozen_a = bool(adapter.dora), bool(adapter.frozen_a)
        self.adapter_dropout = adapter.dropout or 0.0
        self.keeps_input = not facts.reaches(settings.versions, facts.DROPS_INPUT)
        self.computes = self._asked_width()
        self.dequantized = self._dequantized_width()
        self.transposes = not facts.reaches(settings.versions, facts.NO_TRANSPOSED_CODES)
        self.quantizes_head = self._quantizes_head()
        saved = adapter.modules_to_save
        self.saves_embedding = any(matches("embed_tokens", (name,)) for name in saved)
        self.saves_head = any(matches("lm_head", (name,)) for name in saved)

    def _asks_for_preparation(self) -> bool:
        """True if PEFT prepares the model for training on quantized weights.

        Sharded loaders leave that out: parameters are not there yet to be cast.
        """
        quantization = self.quantization
        if quantization is None or quantization.type not in _BITSANDBYTES:
            return False
        return bool(quantization.kbit_preparation)

    def _asked_width(self) -> int:
        """Bytes of the dtype that 4-bit matmuls ask for, where it is wider than the run's; 0."""
        if self.quantization is None or self.quantization.type not in ("nf4", "fp4"):
            return 0
        requested = dtype_width(self.quantization.compute_dtype or "bfloat16")
        return requested if requested > self.compute else 0

    def _dequantized_width(self) -> int:
        """Bytes of one number of the weight that comes out of 4-bit codes, its copies included."""
        if self.computes:
            # Weights come out of their codes in 16 bits, and are cast.
            return self.compute + self.computes
        twice = self.settings.compute_dtype == "bfloat16" and not facts.reaches(
            self.settings.versions, facts.QUANTIZES_ANY_DTYPE
        )
        return self.compute + (2 if twice else 0)

    def _quantizes_head(self) -> bool:
        """True if bitsandbytes quantizes the output matrix, which transformers leaves out.

        A list of skipped modules replaces transformers' own, which has the output matrix.
        """
        quantization = self.quantization
        if quantization is None or quantization.type not in _BITSANDBYTES:
            return False
        if self.architecture.tied or self.architecture.head != "lm":
            return False
        if quantization.skip_modules is not None:
            return not any(matches("lm_head", (name,)) for name in quantization.skip_modules)
        return facts.uses_litgpt(self.settings.versions)

    @kept
    def hold(self, linear: Linear) -> Held:
        """How one linear map is held."""
        rank = 0
        if self.lora is not None and matches(linear.name, self.lora.target_modules or ()):
            rank = self.lora.r or 8
        first, second = (rank * size * linear.experts for size in (linear.inputs, linear.outputs))
        adapter = second if self.frozen_a else first + second
        fixed = first * self.adapter_width if self.frozen_a else 0
        biases = linear.outputs * linear.experts if linear.bias else 0
        quantization = self.quantization
        if quantization is not None and self._is_quantized(linear, quantization):
            bias = biases * self.other_width
            base = quantized_bytes(linear, quantization) + bias + fixed
            return Held(self._quantized_weight(quantization, rank), base, adapter, bias)
        # What quantization leaves out, PEFT's preparation casts.
        width = self.other_width if quantization else self.width
        stored = max(self.working, width) if self.prepared else self.working
        weight = self._adapted(rank)._replace(
            trainable=self.full, stored=stored, gradient=self.working
        )
        bias = biases * width
        return Held(weight, linear.weights * width + bias + fixed, adapter, bias)

    def _adapted(self, rank: int) -> Weight:
        """How a matrix is held under an adapter of a rank; 0: none."""
        return Weight(
            rank=rank,
            adapter_width=self.adapter_width,
            adapter_dropout=self.adapter_dropout,
            dora=self.dora,
            frozen_a=self.frozen_a,
        )

    def _is_quantized(self, linear: Linear, quantization: Quantization) -> bool:
        skipped = quantization.skip_modules or ()
        if any(matches(linear.name, (name,)) for name in skipped):
            return False
        # bitsandbytes leaves experts that are one tensor as they are.
        return (
            linear.experts <= 1
            or quantization.type not in _BITSANDBYTES
            or not facts.reaches(self.settings.versions, facts.GROUPED_EXPERTS)
        )

    def _quantized_weight(self, quantization: Quantization, rank: int) -> Weight:
        kernel = quantization.type in ("gptq", "awq", *PACKED)
        eight = quantization.type == "int8"
        return self._adapted(rank)._replace(
            trainable=False,
            stored=0,
            quantized=True,
            dequantized=0 if kernel else self.compute if eight else self.dequantized,
            eight_bit=eight,
            computes=self.computes,
            keeps_input=eight or (not kernel and self.keeps_input),
            keeps_codes=eight and self.transposes,
        )

    def weights(self, layer: Layer) -> Weights:
        """The lookup that blocks use."""
        named = {linear.name: self.hold(linear).weight for linear in layer.linears}
        return Weights(
            Weight(trainable=self.full, stored=self.working, gradient=self.working), named
        )

    def layer(self, layer: Layer, norm_parameters: int) -> Stock:
        """The stock of one layer."""
        base = trainable = adapter = largest = quantized = streams = 0
        shapes: list[tuple[int, int, int]] = []
        for linear in layer.linears:
            held = self.hold(linear)
            base += held.base
            streams += held.base - held.bias
            adapter += held.adapter
            if held.weight.quantized:
                quantized += held.base
            if self.full:
                trainable += linear.parameters
                largest = max(largest, linear.weights)
                shapes.append((linear.inputs, linear.outputs * linear.experts, 1))
            elif held.adapter:
                rank = held.weight.rank
                if not self.frozen_a:
                    shapes.append((rank, linear.inputs * linear.experts, 1))
                shapes.append((rank, linear.outputs * linear.experts, 1))
        other = layer.norms * norm_parameters + layer.attention.other_parameters
        other += layer.mlp.other_parameters + (layer.cross.other_parameters if layer.cross else 0)
        base += other * self.other_width
        if self.full:
            trainable += other
            if other:
                shapes.append((1, other, 1))
        return Stock(
            base=base,
            trainable=trainable,
            adapter=adapter,
            largest=largest,
            quantized=quantized,
            shapes=tuple(shapes),
            streams=0 if self.full else streams,
        )

    @kept
    def embedding(self) -> Stock:
        """The token table and what no layer holds."""
        architecture = self.architecture
        table = architecture.embedding_parameters
        other = architecture.other_parameters + architecture.norm_parameters
        width = self.other_width
        base = (table + other) * width
        trainable = table + other if self.trains_tables else 0
        streams = 0 if trainable or (architecture.tied and self.saves_head) else table * width
        adapter = 0
        if self.lora is not None and matches("embed_tokens", self.lora.target_modules or ()):
            adapter = (self.lora.r or 8) * (architecture.hidden + architecture.vocabulary)
        if self.saves_embedding:
            trainable = table
            base += table * width
            streams = 0
        shapes: tuple[tuple[int, int, int], ...] = ()
        if trainable:
            shapes = (
                (architecture.vocabulary, architecture.embedding_dim or architecture.hidden, 1),
            )
        return Stock(
            base=base,
            trainable=trainable,
            largest=table if trainable else 0,
            adapter=adapter,
            shapes=shapes,
            embedding=table if trainable else 0,
            streams=streams,
        )

    @kept
    def head(self) -> Stock:
        """The output matrix, where it is one of its own."""
        architecture = self.architecture
        numel = architecture.head_parameters
        width = 4 if self.prepared else self.width
        base = numel * width
        if self.quantizes_head and self.quantization is not None:
            matrix = Linear("lm_head", architecture.hidden, architecture.vocabulary)
            base = quantized_bytes(matrix, self.quantization)
        trainable = numel if self._trains_head() else 0
        if self.saves_head:
            # PEFT's copy of a tied matrix is one of its own, beside that of the embeddings.
            trainable = max(numel, architecture.vocabulary * architecture.hidden)
            base += trainable * width
        return Stock(
            base=base,
            trainable=trainable,
            largest=trainable,
            adapter=self._head_rank() * (architecture.hidden + architecture.vocabulary),
            shapes=self._head_shapes(trainable) if trainable else (),
            streams=0 if trainable or self.quantizes_head else base,
        )

    @property
    def trains_tables(self) -> bool:
        """True if the embeddings are trained with the layers."""
        return self.full and self.settings.frozen != "embeddings"

    def _trains_head(self) -> bool:
        """True if the output matrix is trained with the model, or alone."""
        tied = self.architecture.tied and not self.trains_tables
        alone = self.head_alone or self.architecture.head != "lm"
        return (self.full or alone) and (self.architecture.head != "lm" or not tied)

    def _head_rank(self) -> int:
        """The rank of the output matrix's adapter; 0 without one. Patterns leave the matrix out."""
        lora = self.lora
        if lora is None or isinstance(lora.target_modules, str):
            return 0
        return (lora.r or 8) if matches("lm_head", lora.target_modules or ()) else 0

    def _head_shapes(self, numel: int) -> tuple[tuple[int, int, int], ...]:
        if self.architecture.tied and not self.saves_head:
            return ((1, numel, 1),)
        outputs = max(numel // self.architecture.hidden, 1)
        return ((outputs, self.architecture.hidden, 1),)

    def head_weight(self) -> Weight:
        """The output matrix as the loss sees it."""
        trainable = self._trains_head() or self.saves_head
        weight = self._adapted(self._head_rank())._replace(trainable=trainable)
        if self.quantizes_head:
            return weight._replace(stored=0, quantized=True, dequantized=self.dequantized)
        stored = 4 if self.prepared else self.working
        return weight._replace(stored=stored, gradient=stored)


class Stock(Record):
    """Weights of a part of the model.

    base: bytes. trainable: base numbers that train. adapter: adapter numbers (all train).
    largest: the largest trainable parameter, in numbers. quantized: bytes of ``base`` that are
    codes. shapes: rows, columns and count of trainable matrices. embedding: trainable numbers of
    token tables. streams: bytes of ``base`` that the runtime can keep on the host.
    """

    base: int = 0
    trainable: int = 0
    adapter: int = 0
    largest: int = 0
    quantized: int = 0
    shapes: tuple[tuple[int, int, int], ...] = ()
    embedding: int = 0
    streams: int = 0
