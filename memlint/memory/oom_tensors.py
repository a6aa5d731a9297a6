"""The table of a run's tensors that can fail to be allocated, and how each grows with the batch.

The memory model knows each size at a given length (``single_tensors``). Asked at two lengths, it
shows which tensors are fixed, which grow with the tokens and which with their square, so that a
size can be turned into a length. What no step of the model makes (copies for saving and merging,
flat buffers, evaluation) is added from the sizes of its maps.
"""

from collections.abc import Iterator
from itertools import product

from memlint.memory.architecture import Architecture
from memlint.memory.checkpoints import find_architecture
from memlint.memory.estimates import single_tensors
from memlint.memory.lifetimes import Tensor
from memlint.memory.settings import Settings, replace
from memlint.memory.trainer_kinds import kind_of
from memlint.source.record import Record

FIXED, LINEAR, SQUARE = 0, 1, 2
_BUCKET = 500_000_000  # elements of DeepSpeed's default reduce and all-gather buckets
_DDP_BUCKET = 25 * 2**20
_RARE = 0.05  # of a tensor's chance where the strategy has no such tensors
_ADDED = 64  # tokens that people add to a vocabulary, or that pad it
_LENGTH = 2048  # where no length is known, sizes are taken here


class Sized(Record):
    """A tensor, with its bytes at the table's rows and length, and the power by which they grow.

    sizes: the factors in words. prior: against others of its kind. least, most: bytes that it can
    have as well (added tokens, padding, parts that the settings leave out); 0 for none.
    """

    kind: str
    tensor: str
    phase: str
    bytes: int
    growth: int = FIXED
    sizes: str = ""
    prior: float = 1.0
    least: int = 0
    most: int = 0


class Table(Record):
    """The tensors of a run. longest: row that the model was made for; 0 where that is not known."""

    run: Settings
    rows: int
    length: int
    longest: int
    knows_rows: bool
    tensors: tuple[Sized, ...]


def table_of(settings: Settings) -> Table:
    """Every tensor of a run; what is not known of it is taken by default and as most write it."""
    architecture = find_architecture(settings.model)
    length = settings.seq_len or _LENGTH
    if settings.seq_len is None and architecture.max_positions:
        length = min(length, architecture.max_positions)
    run = settings if settings.micro_batch else replace(settings, micro_batch=1)
    usual = {"loss": "full_logits", "attention": "eager", "optimizer": "adamw_torch"}
    usual = {key: value for key, value in usual.items() if getattr(settings, key) is None}
    rows = (run.micro_batch or 1) * kind_of(run.trainer).rows
    items = list(_grown(run, length, architecture, 1.0))
    items += _grown(replace(run, **usual), length, architecture, 0.7) if usual else ()
    items += _by_tokens(architecture, rows * length)
    items += _copies(run, architecture)
    items += _flat(run, architecture)
    table: dict[tuple[str, str, int, int], Sized] = {}
    for item in items:
        table.setdefault((item.kind, item.tensor, item.bytes, item.growth), item)
    knows_rows = settings.micro_batch is not None
    return Table(run, rows, length, architecture.max_positions, knows_rows, tuple(table.values()))


# What the model itself lists


def _grown(run: Settings, length: int, architecture: Architecture, prior: float) -> Iterator[Sized]:
    inner = {linear.name for layer, _ in architecture.layers for linear in layer.mlp.projections}
    inner -= {layer.mlp.projections[-1].name for layer, _ in architecture.layers}
    short, long = (_by_name(single_tensors(_at(run, size))) for size in (length, 2 * length))
    for (phase, name), tensors in short.items():
        others = long.get((phase, name), [])
        for at, tensor in enumerate(tensors):
            growth = FIXED
            if len(others) == len(tensors) and tensor.bytes:
                ratio = others[at].bytes / tensor.bytes
                growth = SQUARE if ratio > 3.5 else LINEAR if ratio > 1.8 else FIXED
            kind = _kind(phase, tensor, inner)
            if growth == FIXED and kind in ("activation", "other") and "workspace" in name:
                kind = "dequantized_weight" if run.quantization else "other"
            yield Sized(kind, name, phase, tensor.bytes, growth, tensor.arithmetic, prior)


def _at(run: Settings, length: int) -> Settings:
    if kind_of(run.trainer).generates:
        # The completion has the logits, so it takes what the prompt leaves.
        prompt = min(run.prompt_len or 512, length // 2)
        return replace(run, seq_len=length, prompt_len=prompt, completion_len=length - prompt)
    return replace(run, seq_len=length)


def _by_name(tensors: tuple[tuple[str, Tensor], ...]) -> dict[tuple[str, str], list[Tensor]]:
    named: dict[tuple[str, str], list[Tensor]] = {}
    for phase, tensor in tensors:
        named.setdefault((phase, tensor.name), []).append(tensor)
    return named


_BY_KIND = {
    "weights": "weights",
    "gathered": "gathered_parameter",
    "gradients": "weight_gradient",
    "optimizer states": "optimizer_state",
    "optimizer temporaries": "optimizer_temporary",
    "kv cache": "kv_cache",
}
_INNER = ("activation", "gated product", "tokens of an expert", "weighted outputs")
_SCORES = tuple(f"attention {word}" for word in ("scores", "softmax", "weights", "dropout"))


def _kind(phase: str, tensor: Tensor, inner: set[str]) -> str:
    name = tensor.name.removeprefix("gradient of ")
    if tensor.kind in _BY_KIND:
        return _BY_KIND[tensor.kind]
    if phase == "loss":
        return _loss_kind(name, tensor)
    if name.startswith(_SCORES):
        return "attention_scores"
    plain = name.removeprefix("workspace of ").removesuffix(" dropout")
    return "mlp_activation" if plain in inner or plain in _INNER else "activation"


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


# What it does not list

# Kind, words, phase, bytes of a number, prior: of logits, whatever the loss path is.
_LOGITS = (
    ("eval_logits", "logits of an evaluation batch in 16 bits", "evaluation", 2, 1.0),
    ("eval_logits", "logits of an evaluation batch in float32", "evaluation", 4, 1.0),
    ("logits", "logits of a float32 model", "loss", 4, 0.3),
    ("logits_fp32", "logits in float32", "loss", 4, 0.8),
    ("log_softmax", "log-softmax in float32", "loss", 4, 0.8),
    ("log_softmax", "log-softmax in 16 bits", "loss", 2, 0.3),
    ("logits_gradient", "gradient of the float32 logits", "backward", 4, 0.8),
    ("logits_gradient", "gradient of the 16-bit logits", "backward", 2, 0.3),
)
# Kind, words, phase, prior, where: of each matrix, in 16 and in 32 bits.
_MATRICES = (
    ("state_dict_copy", "copy of {}", "save or merge", 1.0, "all"),
    ("weights", "{} in {} bits", "load", 0.5, "all"),
    ("reference_model", "{} of the reference model", "load", 1.0, "all"),
    ("gathered_parameter", "gathered {}", "forward", 0.7, "all"),
    ("merged_weight", "update of {}", "save or merge", 1.0, "adapters"),
    ("dequantized_weight", "dequantized {}", "forward", 1.0, "adapters"),
    ("weight_gradient", "gradient of {}", "backward", 0.5, "full"),
    ("optimizer_state", "one state of {}", "optimizer step", 0.5, "full"),
    ("optimizer_temporary", "temporary of {}", "optimizer step", 0.5, "full"),
)
# Kind, words, phase, of what: flat buffers of data-parallel runs, whole and in parts.
_BUFFERS = (
    ("gathered_parameter", "{}", "forward", ("root", "layer")),
    ("weight_gradient", "gradient of {} as one flat parameter", "backward", ("model", "layer")),
    ("state_dict_copy", "{}", "save or merge", ("model",)),
    ("weights", "{}", "load", ("model",)),
)
_PARTS = (
    ("optimizer_state", "one state's part of {}", "optimizer step"),
    ("optimizer_temporary", "temporary of one part of {}", "optimizer step"),
    ("weight_gradient", "gradients of one part of {}", "backward"),
)
_NAMES = {"model": "the whole model", "root": "embeddings and head", "layer": "a layer"}


def _by_tokens(architecture: Architecture, tokens: int) -> Iterator[Sized]:
    if architecture.head == "lm":
        words = architecture.vocabulary
        for kind, tensor, phase, width, prior in _LOGITS:
            sizes = f"vocabulary {words} x {width} bytes"
            yield Sized(kind, tensor, phase, tokens * words * width, LINEAR, sizes, prior)
    attention = architecture.layers[0][0].attention
    if attention.kind in ("full", "sliding", "latent"):
        keys = f"{attention.key_heads} heads x {attention.key_dim}"
        for parts, tensor in ((1, "keys of one layer"), (2, "keys and values of one layer")):
            size = parts * tokens * attention.key_heads * attention.key_dim * 2
            sizes = f"{keys} x {2 * parts} bytes"
            yield Sized("kv_cache", tensor, "generation", size, LINEAR, sizes)


def _copies(run: Settings, architecture: Architecture) -> Iterator[Sized]:
    linears = {linear for layer, _ in architecture.layers for linear in layer.linears}
    matrices = {(one.name, one.inputs, one.outputs * one.experts) for one in linears}
    method = "full" if run.method in (None, "full") else "adapters"
    for name, inputs, outputs in sorted(matrices):
        yield from _matrix(name, inputs, outputs, ("all", method), 0)
        bits = (run.quantization.bits if run.quantization else None) or 4
        size, prior = inputs * outputs * bits // 8, 1.0 if run.quantization else 0.3
        sizes = f"{inputs} x {outputs} x {bits} bits"
        yield Sized("weights", f"quantized {name}", "load", size, FIXED, sizes, prior)
    tables = ("all", method) if method == "full" else ("all",)
    for name in ("embed_tokens", "lm_head"):
        yield from _matrix(name, architecture.vocabulary, architecture.hidden, tables, _ADDED)


def _matrix(
    name: str, inputs: int, outputs: int, where: tuple[str, ...], added: int
) -> Iterator[Sized]:
    """The copies of a matrix. added: rows that it may have beyond its own."""
    for width in (2, 4):
        sizes = f"{inputs} x {outputs} x {width} bytes"
        size, most = inputs * outputs * width, (inputs + added) * outputs * width
        for kind, words, phase, prior, methods in _MATRICES:
            if methods in where:
                tensor = words.format(name, 8 * width)
                yield Sized(kind, tensor, phase, size, FIXED, sizes, prior, most=most)


def _flat(run: Settings, architecture: Architecture) -> Iterator[Sized]:
    world = run.world_size or 1
    for kind, tensor, phase, numel, words in _buffers(architecture):
        for width in (2, 4):
            sizes = f"{words} x {width} bytes"
            yield Sized(kind, tensor, phase, numel * width, FIXED, sizes, 0.7)
    if world > 1 and run.method in (None, "full"):
        for what, numel in _numbers(architecture):
            for (kind, words, phase), width in product(_PARTS, (2, 4)):
                tensor, size = words.format(_NAMES[what]), -(-numel // world) * width
                sizes = f"{numel:,} parameters / {world} GPUs x {width} bytes"
                # Parameters are counted with towers and adapters, or in round billions.
                least, most = size * 98 // 100, size * 108 // 100
                yield Sized(kind, tensor, phase, size, FIXED, sizes, 0.7, least, most)
    if run.sharding == "ddp" or (run.sharding is None and world > 1):
        sizes = "DDP's default bucket of 25 MiB"
        yield Sized("gradient_bucket", "DDP's bucket", "backward", _DDP_BUCKET, FIXED, sizes)


def _buffers(architecture: Architecture) -> Iterator[tuple[str, str, str, int, str]]:
    """Kind, tensor, phase, elements and their words of what is put together whole."""
    yield "gradient_bucket", "DeepSpeed's bucket", "backward", _BUCKET, f"{_BUCKET:,} elements"
    root = architecture.embedding_parameters + architecture.head_parameters
    for what, numel in (("root", root), *_numbers(architecture)):
        for kind, tensor, phase, of in _BUFFERS:
            if what in of:
                yield kind, tensor.format(_NAMES[what]), phase, numel, f"{numel:,} parameters"


def _numbers(architecture: Architecture) -> Iterator[tuple[str, int]]:
    """Parameters of the model and of each kind of layer."""
    yield "model", architecture.parameters
    for numel in sorted({architecture.layer_parameters(layer) for layer, _ in architecture.layers}):
        yield "layer", numel


# Which of them a strategy has

_STATES = ("optimizer_state", "optimizer_temporary")
# What is held in flat parts.
_HELD_FLAT = {
    "fsdp": (*_STATES, "weight_gradient"),
    "zero1": _STATES,
    "zero2": _STATES,
    "zero3": (*_STATES, "weights"),
}


def likelihood(item: Sized, run: Settings) -> float:
    """How likely a run of these settings has the tensor: what the strategy holds, and how.

    FSDP1 and ZeRO hold states in flat parts; FSDP1 gathers whole layers, ZeRO-3 each parameter.
    Whole float32 matrices then appear where a state dict is put together. Matmuls dequantize into
    16 bits; float32 copies of whole matrices are made to merge.
    """
    kind, sharding = item.kind, run.sharding or "none"
    if item.growth != FIXED:
        return 1.0
    is_flat = "parameters" in item.sizes
    if kind == "gathered_parameter":
        return _gathered(item, run, is_flat)
    if kind == "weight_gradient" and "flat parameter" in item.tensor:
        return 1.0 if sharding == "fsdp" else _of_strategy(run)
    if kind == "reference_model":
        return 1.0 if kind_of(run.trainer).preference else _RARE
    if kind == "dequantized_weight" or (kind == "weights" and run.quantization is not None):
        return _beside_quantized(item, run)
    return _RARE if kind in _HELD_FLAT.get(sharding, ()) and not is_flat else 1.0


def _beside_quantized(item: Sized, run: Settings) -> float:
    if run.quantization is None:
        return _RARE if run.method in ("full", "lora") else 1.0
    if item.kind == "dequantized_weight":
        return 0.1 if _is_wide(item, run) else 1.0
    return 1.0 if "bits" in item.sizes or run.compute_dtype == "float32" else 0.2


def _gathered(item: Sized, run: Settings, is_flat: bool) -> float:
    if run.sharding not in ("fsdp", "fsdp2", "zero3"):
        return _of_strategy(run)
    if run.sharding == "fsdp" and not is_flat:
        return _RARE
    by_parameter = 4.0 if run.sharding == "zero3" and not is_flat else 1.0
    return by_parameter * (0.2 if _is_wide(item, run) else 1.0)


def _of_strategy(run: Settings) -> float:
    """What another strategy has: rare, unless it is not known which of them it is."""
    return _RARE if run.sharding or (run.world_size or 1) == 1 else 0.3


def _is_wide(item: Sized, run: Settings) -> bool:
    return item.sizes.endswith(" x 4 bytes") and run.compute_dtype != "float32"
