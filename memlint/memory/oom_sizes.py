"""The tensors of a run that can fail to be allocated, and how each grows with the batch.

The memory model knows each size at a given length (``single_tensors``). Asked at two lengths, it
shows which tensors are fixed, which grow with the tokens and which with their square, so that a
size can be turned into a length. What the model does not list (copies for saving and merging,
buckets, evaluation) is added here.
"""

from __future__ import annotations

from collections.abc import Iterator

from memlint.memory.architecture import Architecture
from memlint.memory.checkpoints import find_architecture
from memlint.memory.estimates import single_tensors
from memlint.memory.lifetimes import Tensor
from memlint.memory.settings import Settings, replace
from memlint.source.record import Record

KINDS = (
    "logits",
    "logits_fp32",
    "log_softmax",
    "logits_gradient",
    "eval_logits",
    "attention_scores",
    "activation",
    "mlp_activation",
    "weights",
    "weight_gradient",
    "gathered_parameter",
    "gradient_bucket",
    "optimizer_state",
    "optimizer_temporary",
    "kv_cache",
    "state_dict_copy",
    "dequantized_weight",
    "merged_weight",
    "reference_model",
    "other",
)
FIXED, LINEAR, SQUARE = 0, 1, 2
_BUCKET = 500_000_000  # elements of DeepSpeed's default reduce and all-gather buckets
_DDP_BUCKET = 25 * 2**20
_RARE = 0.05  # of a tensor's chance where the strategy has no such tensors
_ADDED = 64  # tokens that people add to a vocabulary, or that pad it
_LENGTH = 2048  # where no length is known, sizes are taken here


class Sized(Record):
    """A tensor: its bytes at ``length`` tokens a row and ``rows`` rows, and how they grow.

    sizes: the factors in words. prior: against others of its kind. longest: row that the model was
    made for, in tokens; 0 where the configuration does not say. least, most: bytes that it can
    have as well (added tokens, padding, parts that the settings leave out); 0 for none. layout:
    how much likelier the run has such a tensor by its strategy.
    """

    kind: str
    tensor: str
    phase: str
    bytes: int
    growth: int
    rows: int
    length: int
    sizes: str = ""
    model: str = ""
    prior: float = 1.0
    longest: int = 0
    least: int = 0
    most: int = 0
    layout: float = 1.0

    @property
    def each(self) -> float:
        """Bytes of one token of every row, or of one pair of tokens."""
        return self.bytes / float(self.length**self.growth)


def sized_tensors(settings: Settings, *, known_loss: bool) -> tuple[Sized, ...]:
    """Every tensor of a run; ``known_loss``: whether the loss path is more than a default."""
    architecture = find_architecture(settings.model)
    name = settings.model if isinstance(settings.model, str) else architecture.family
    length = settings.seq_len or _LENGTH
    if architecture.max_positions and architecture.family in ("gpt2", "bert", "opt", "roberta"):
        length = min(length, architecture.max_positions)
    if settings.micro_batch is None:
        settings = replace(settings, micro_batch=1)
    variants = [settings]
    changes: dict[str, object] = {}
    if not known_loss:
        changes["loss"] = "full_logits"
    if settings.attention is None:
        changes["attention"] = "eager"
    if settings.optimizer is None:
        changes["optimizer"] = "adamw_torch"
    if changes:
        variants.append(replace(settings, **changes))
    found: dict[tuple[str, str, int, int], Sized] = {}
    for number, variant in enumerate(variants):
        prior = 1.0 if number == 0 else 0.7
        for item in _grown(variant, length, name):
            key = (item.kind, item.tensor, item.bytes, item.growth)
            found.setdefault(key, item._replace(prior=prior, longest=architecture.max_positions))
    for item in _extra(settings, architecture, length, name):
        found.setdefault(
            (item.kind, item.tensor, item.bytes, item.growth),
            item._replace(longest=architecture.max_positions),
        )
    return tuple(item._replace(layout=_layout(item, settings)) for item in found.values())


def _layout(item: Sized, settings: Settings) -> float:
    """How much likelier a run of these settings has the tensor: what the strategy holds, and how.

    FSDP1 and ZeRO hold states in flat parts; FSDP1 gathers whole layers, ZeRO-3 each parameter.
    Whole float32 matrices then appear where a state dict is put together.
    """
    if item.growth != FIXED:
        return 1.0
    sharding = settings.sharding or "none"
    if item.kind == "gathered_parameter":
        return _gathers(item, settings, sharding)
    if item.kind == "weight_gradient" and "flat parameter" in item.tensor:
        return _joined(settings, sharding)
    if item.kind == "dequantized_weight" and settings.method in ("full", "lora"):
        return _RARE if settings.quantization is None else 1.0
    if item.kind == "reference_model":
        return 1.0 if "DPO" in str(settings.trainer) or "GRPO" in str(settings.trainer) else _RARE
    rarely = _beside_quantized(item, settings)
    if rarely is not None:
        return rarely
    flat = item.kind in _FLAT.get(sharding, ()) and "parameters" not in item.sizes
    return _RARE if flat else 1.0


def _beside_quantized(item: Sized, settings: Settings) -> float | None:
    """How likely a weight of that width is where the others are quantized; None: as elsewhere."""
    if settings.quantization is None or settings.compute_dtype == "float32":
        return None
    # Matmuls dequantize into 16 bits; float32 copies of whole matrices are made to merge.
    if item.kind == "dequantized_weight" and item.sizes.endswith(" x 4 bytes"):
        return 0.1
    return 0.2 if item.kind == "weights" and "bits" not in item.sizes else None


# What a strategy holds in flat parts.
_STATES = ("optimizer_state", "optimizer_temporary")
_FLAT = {
    "fsdp": (*_STATES, "weight_gradient"),
    "zero1": _STATES,
    "zero2": _STATES,
    "zero3": (*_STATES, "weights"),
}


def _joined(settings: Settings, sharding: str) -> float:
    """How likely one gradient of all parameters of a layer or a model: flat parameters have it."""
    if sharding == "fsdp":
        return 1.0
    return _RARE if settings.sharding or (settings.world_size or 1) == 1 else 0.3


def _gathers(item: Sized, settings: Settings, sharding: str) -> float:
    """How likely a gathered tensor is: under strategies that gather, in the compute dtype."""
    if sharding not in ("fsdp", "fsdp2", "zero3"):
        return _RARE if settings.sharding or (settings.world_size or 1) == 1 else 0.3
    wide = item.sizes.endswith(" x 4 bytes") and settings.compute_dtype != "float32"
    whole = "parameters" in item.sizes
    if sharding == "fsdp" and not whole:
        return _RARE
    return (0.2 if wide else 1.0) * (4.0 if sharding == "zero3" and not whole else 1.0)


def _grown(settings: Settings, length: int, name: str) -> Iterator[Sized]:
    rows = _rows(settings)
    short, long = (_by_name(single_tensors(_at(settings, size))) for size in (length, 2 * length))
    for key, tensors in short.items():
        others = long.get(key, [])
        phase = key[0]
        for at, tensor in enumerate(tensors):
            kind = _kind(phase, tensor)
            growth = FIXED
            if len(others) == len(tensors) and tensor.bytes:
                ratio = others[at].bytes / tensor.bytes
                growth = SQUARE if ratio > 3.5 else LINEAR if ratio > 1.8 else FIXED
            if growth == FIXED and kind in ("activation", "other") and "workspace" in tensor.name:
                kind = "dequantized_weight" if settings.quantization else "other"
            yield Sized(
                kind,
                tensor.name,
                phase,
                tensor.bytes,
                growth,
                rows,
                length,
                tensor.arithmetic,
                name,
            )


def _rows(settings: Settings) -> int:
    """Rows of a micro-batch: a pair of DPO has two."""
    return (settings.micro_batch or 1) * (2 if settings.trainer == "trl.DPOTrainer" else 1)


def _at(settings: Settings, length: int) -> Settings:
    if settings.trainer == "trl.GRPOTrainer":
        # The completion has the logits, so it takes what the prompt leaves.
        prompt = min(settings.prompt_len or 512, length // 2)
        return replace(settings, seq_len=length, prompt_len=prompt, completion_len=length - prompt)
    return replace(settings, seq_len=length)


def _by_name(found: tuple[tuple[str, Tensor], ...]) -> dict[tuple[str, str], list[Tensor]]:
    named: dict[tuple[str, str], list[Tensor]] = {}
    for phase, tensor in found:
        named.setdefault((phase, tensor.name), []).append(tensor)
    return named


_MLP = (
    "gate_proj",
    "up_proj",
    "activation",
    "gated product",
    "gate_up_proj",
    "fc1",
    "c_fc",
    "dense_h_to_4h",
    "tokens of an expert",
    "weighted outputs",
    "w1",
    "w3",
    "wi_0",
    "wi_1",
    "intermediate",
    "lin1",
    "up",
    "gate",
)


def _kind(phase: str, tensor: Tensor) -> str:
    name = tensor.name.removeprefix("gradient of ")
    if phase == "load":
        return "weights"
    if phase == "optimizer step":
        return "optimizer_temporary" if "temporar" in tensor.kind else "optimizer_state"
    if phase == "generation":
        return "kv_cache"
    if tensor.kind == "gathered":
        return "gathered_parameter"
    if tensor.kind == "gradients":
        return "weight_gradient"
    if phase == "loss":
        return _loss_kind(name, tensor)
    if name.startswith("attention") and any(
        word in name for word in ("scores", "softmax", "weights", "dropout")
    ):
        return "attention_scores"
    plain = name.removeprefix("workspace of ")
    if plain in _MLP or plain.removesuffix(" dropout") in _MLP:
        return "mlp_activation"
    return "activation"


def _loss_kind(name: str, tensor: Tensor) -> str:
    if "norm" in name:
        return "activation"
    if name.startswith("workspace of"):
        return "log_softmax" if "log" in name else "other"
    if tensor.kind == "activation gradients":
        return "logits_gradient"
    if "log-softmax" in name or "log-prob" in name:
        return "log_softmax"
    if "float32" in name or "shift" in name:
        return "logits_fp32"
    return "logits" if tensor.kind == "logits" else "activation"


def _extra(
    settings: Settings, architecture: Architecture, length: int, name: str
) -> Iterator[Sized]:
    """What the timeline does not list: copies, buckets, evaluation, generation."""
    yield from _logit_copies(settings, architecture, length, name)
    yield from _weight_copies(settings, architecture, length, name)
    yield from _caches(settings, architecture, length, name)
    yield from _flat(settings, architecture, length, name)


def _logit_copies(
    settings: Settings, architecture: Architecture, length: int, name: str
) -> Iterator[Sized]:
    if architecture.head != "lm":
        return
    rows = _rows(settings)
    vocabulary = architecture.vocabulary
    for width in (2, 4):
        word = "float32" if width == 4 else "16 bits"
        yield Sized(
            "eval_logits",
            f"logits of an evaluation batch in {word}",
            "evaluation",
            rows * length * vocabulary * width,
            LINEAR,
            rows,
            length,
            f"vocabulary {vocabulary} x {width} bytes",
            name,
        )
    for kind, tensor in (
        ("logits", "logits of a float32 model"),
        ("logits_fp32", "logits in float32"),
        ("log_softmax", "log-softmax in float32"),
        ("logits_gradient", "gradient of the float32 logits"),
        ("log_softmax", "log-softmax in 16 bits"),
        ("logits_gradient", "gradient of the 16-bit logits"),
    ):
        width = 2 if "16" in tensor else 4
        yield Sized(
            kind,
            tensor,
            "backward" if "gradient" in tensor else "loss",
            rows * length * vocabulary * width,
            LINEAR,
            rows,
            length,
            f"vocabulary {vocabulary} x {width} bytes",
            name,
            0.3 if width == 2 or kind == "logits" else 0.8,
        )


def _weight_copies(
    settings: Settings, architecture: Architecture, length: int, name: str
) -> Iterator[Sized]:
    rows = _rows(settings)
    whole = {
        (linear.name, linear.inputs, linear.outputs * linear.experts)
        for layer, _ in architecture.layers
        for linear in layer.linears
    }
    tables = {
        ("embed_tokens", architecture.vocabulary, architecture.hidden),
        ("lm_head", architecture.vocabulary, architecture.hidden),
    }
    full = settings.method in (None, "full")
    yield from _joined_weights(architecture, rows, length, name)
    for matrix, inputs, outputs in sorted(whole | tables):
        numel = inputs * outputs
        for width in (2, 4):
            sizes = f"{inputs} x {outputs} x {width} bytes"
            copies = [
                ("state_dict_copy", f"copy of {matrix}", "save or merge", 1.0),
                ("weights", f"{matrix} in {8 * width} bits", "load", 0.5),
                ("reference_model", f"{matrix} of the reference model", "load", 1.0),
                ("gathered_parameter", f"gathered {matrix}", "forward", 0.7),
            ]
            if not full and (matrix, inputs, outputs) in whole:
                copies.append(("merged_weight", f"update of {matrix}", "save or merge", 1.0))
                copies.append(("dequantized_weight", f"dequantized {matrix}", "forward", 1.0))
            if full:
                copies.append(("weight_gradient", f"gradient of {matrix}", "backward", 0.5))
                copies.append(("optimizer_state", f"one state of {matrix}", "optimizer step", 0.5))
                copies.append(
                    ("optimizer_temporary", f"temporary of {matrix}", "optimizer step", 0.5)
                )
            for kind, tensor, phase, prior in copies:
                size = numel * width
                table = (matrix, inputs, outputs) in tables
                most = size + _ADDED * outputs * width if table else 0
                yield Sized(
                    kind, tensor, phase, size, FIXED, rows, length, sizes, name, prior, most=most
                )
        bits = settings.quantization.bits or 4 if settings.quantization is not None else 4
        if (matrix, inputs, outputs) in whole:
            yield Sized(
                "weights",
                f"quantized {matrix}",
                "load",
                numel * bits // 8,
                FIXED,
                rows,
                length,
                f"{inputs} x {outputs} x {bits} bits",
                name,
                1.0 if settings.quantization is not None else 0.3,
            )


def _joined_weights(
    architecture: Architecture, rows: int, length: int, name: str
) -> Iterator[Sized]:
    """Matrices that other code joins: queries, keys and values; gate and up."""
    linears = {linear.name: linear for layer, _ in architecture.layers for linear in layer.linears}
    for parts, word in (
        (("q_proj", "k_proj", "v_proj"), "queries, keys and values in one"),
        (("gate_proj", "up_proj"), "gate and up in one"),
    ):
        if not set(parts) <= set(linears):
            continue
        inputs = linears[parts[0]].inputs
        outputs = sum(linears[part].outputs for part in parts)
        for width in (2, 4):
            sizes = f"{inputs} x {outputs} x {width} bytes"
            size = inputs * outputs * width
            yield Sized("weights", word, "load", size, FIXED, rows, length, sizes, name, 0.5)


def _caches(
    settings: Settings, architecture: Architecture, length: int, name: str
) -> Iterator[Sized]:
    rows = _rows(settings)
    attention = architecture.layers[0][0].attention if architecture.layers else None
    if attention is None or attention.kind in ("none", "state", "linear"):
        return
    each = attention.key_heads * attention.key_dim * 2
    heads = f"{attention.key_heads} heads x {attention.key_dim}"
    for parts, tensor in ((1, "keys of one layer"), (2, "keys and values of one layer")):
        size = parts * rows * length * each
        sizes = f"{heads} x {2 * parts} bytes"
        yield Sized("kv_cache", tensor, "generation", size, LINEAR, rows, length, sizes, name)


def _flat(
    settings: Settings, architecture: Architecture, length: int, name: str
) -> Iterator[Sized]:
    """Flat buffers of data-parallel runs: buckets, partitions, flat parameters."""
    rows = _rows(settings)
    world = settings.world_size or 1
    buffers = [*_whole(architecture)]
    if world > 1 and settings.method in (None, "full"):
        buffers.extend(_parts(architecture, world))
    for kind, tensor, phase, numel, words in buffers:
        for width in (2, 4):
            sizes = f"{words} x {width} bytes"
            size = numel * width
            # Parameters are counted with towers and adapters, or in round billions.
            least, most = (size * 98 // 100, size * 108 // 100) if "GPUs" in words else (0, 0)
            yield Sized(
                kind,
                tensor,
                phase,
                size,
                FIXED,
                rows,
                length,
                sizes,
                name,
                0.7,
                least=least,
                most=most,
            )
    if settings.sharding == "ddp" or (settings.sharding is None and world > 1):
        sizes = "DDP's default bucket of 25 MiB"
        yield Sized(
            "gradient_bucket", "DDP's bucket", "backward", _DDP_BUCKET, FIXED, rows, length, sizes
        )


def _whole(architecture: Architecture) -> Iterator[tuple[str, str, str, int, str]]:
    """Kind, tensor, phase, elements and their words of what is put together whole."""
    total = architecture.parameters
    tables = architecture.embedding_parameters + architecture.head_parameters
    yield "gradient_bucket", "DeepSpeed's bucket", "backward", _BUCKET, f"{_BUCKET:,} elements"
    for numel, tensor in (
        (tables, "embeddings and head"),
        *((numel, "a whole layer") for numel in _layer_sizes(architecture)),
    ):
        yield "gathered_parameter", tensor, "forward", numel, f"{numel:,} parameters"
    for numel, tensor in (
        (total, "the whole model as one flat parameter"),
        *((numel, "a layer as one flat parameter") for numel in _layer_sizes(architecture)),
    ):
        tensor = f"gradient of {tensor}"
        yield "weight_gradient", tensor, "backward", numel, f"{numel:,} parameters"
    yield "state_dict_copy", "whole model", "save or merge", total, f"{total:,} parameters"
    yield "weights", "whole model", "load", total, f"{total:,} parameters"


def _parts(architecture: Architecture, world: int) -> Iterator[tuple[str, str, str, int, str]]:
    """The same of one GPU's part of flat tensors."""
    for total, tensor in (
        (architecture.parameters, "of all parameters"),
        *((numel, "of a layer") for numel in _layer_sizes(architecture)),
    ):
        part = -(-total // world)
        words = f"{total:,} parameters / {world} GPUs"
        yield "optimizer_state", f"one state's part {tensor}", "optimizer step", part, words
        yield "optimizer_temporary", f"temporary {tensor}, one part", "optimizer step", part, words
        yield "weight_gradient", f"gradients {tensor}, one part", "backward", part, words


def _layer_sizes(architecture: Architecture) -> tuple[int, ...]:
    return tuple(sorted({architecture.layer_parameters(layer) for layer, _ in architecture.layers}))
