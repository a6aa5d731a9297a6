"""What each optimizer keeps for a parameter, and what its step needs meanwhile.

Names are those of transformers' ``optim``. Sources: ``torch/optim`` (foreach and fused paths),
``bitsandbytes/optim/optimizer.py``, ``torchao/optim``, ``transformers/optimization.py`` and the
optimizers' own packages.
"""

from functools import cache

from memlint.source.record import Record


class Optimizer(Record):
    """An optimizer's memory.

    moments: states of the parameter's own dtype, one number for each parameter number.
    bits: of each quantized state number (bitsandbytes, torchao); block: numbers that share a
        scale of 4 bytes; least: parameters with fewer numbers keep float32 states.
    fixed: bytes of each state number where the dtype is not the parameter's.
    factored: states are one row and one column of float32 (Adafactor).
    foreach: temporaries of the step in parameter-sized copies of all parameters.
    single: temporaries in float32 copies of the largest parameter.
    paged: states live in unified memory, outside torch's allocator.
    wide_embeddings: the Trainer keeps embeddings' states in 32 bits.
    in_backward: gradients are used up as they come.
    tables: states of each number of the embeddings and the head, where another optimizer has them.
    compensated: a number more for each of a 16-bit weight, which holds what rounding takes.
    rank: states are kept in a subspace of this rank.
    """

    name: str
    moments: int = 0
    fixed: int = 0
    bits: int = 0
    block: int = 256
    least: int = 4096
    factored: bool = False
    foreach: float = 0.0
    single: float = 0.0
    paged: bool = False
    wide_embeddings: bool = False
    in_backward: bool = False
    rank: int = 0
    tables: int = 0
    compensated: bool = False


def _bnb(name: str, states: int, bits: int, paged: bool = False) -> Optimizer:
    if bits == 8:
        return Optimizer(name, moments=states, bits=8, paged=paged, wide_embeddings=True)
    return Optimizer(name, moments=states, fixed=4, paged=paged)


_BNB = {"adamw": 2, "ademamix": 3, "lion": 1, "rmsprop_bnb": 1, "adagrad": 1, "sgd": 1, "lamb": 2}
_PAGED = ("adamw", "ademamix", "lion")
_GALORE = (
    Optimizer("galore_adamw", moments=2, rank=128, single=3.0),
    Optimizer("galore_adamw_8bit", moments=2, bits=8, rank=128, single=3.0),
    Optimizer("galore_adafactor", factored=True, rank=128, single=4.0),
    Optimizer("apollo_adamw", moments=2, rank=256, single=3.0),
)
_TABLE: dict[str, Optimizer] = {
    item.name: item
    for item in (
        Optimizer("adamw_torch", moments=2, foreach=1.0),
        Optimizer("adamw_torch_fused", moments=2),
        Optimizer("adamw_torch_xla", moments=2, foreach=1.0),
        Optimizer("adamw_torch_npu_fused", moments=2),
        Optimizer("adamw_apex_fused", moments=2, fixed=4),
        Optimizer("adamw_hf", moments=2, single=1.0),
        Optimizer("adafactor", factored=True, single=4.0),
        Optimizer("adamw_anyprecision", moments=2, fixed=4, single=1.0),
        Optimizer("adamw_torch_4bit", moments=2, bits=4, block=128, single=3.0),
        Optimizer("adamw_torch_8bit", moments=2, bits=8, block=256, single=3.0),
        Optimizer("adamw_torch_fp8", moments=2, bits=8, block=256, single=3.0),
        Optimizer("adamw_bnb_32bit", moments=2, fixed=4),
        Optimizer("adam_mini", moments=1, single=2.0),
        Optimizer("came", moments=1, fixed=4, single=4.0),
        Optimizer("prodigy", moments=4, single=2.0),
        Optimizer("lion_pytorch", moments=1, single=1.0),
        Optimizer("optimi_adamw", moments=2, compensated=True, foreach=1.0),
        Optimizer("optimi_lion", moments=1, compensated=True, foreach=1.0),
        Optimizer("flash_adamw", moments=2, bits=8, block=64, least=0),  # scales of 32, in 16 bits
        Optimizer("flash_lion", moments=1, bits=8, block=64, least=0),
        Optimizer("ademamix", moments=3, fixed=4),
        Optimizer("sgd"),
        Optimizer("sgd_momentum", moments=1),
        Optimizer("adagrad", moments=1, foreach=1.0),
        Optimizer("rmsprop", moments=1, foreach=1.0),
        *(_bnb(f"{name}_8bit", moments, 8) for name, moments in _BNB.items()),
        *(
            _bnb(f"paged_{name}_{bits}bit", _BNB[name], bits, True)
            for name in _PAGED
            for bits in (8, 32)
        ),
        _bnb("adamw_bnb_8bit", 2, 8),
        _bnb("lion_32bit", 1, 32),
        _bnb("rmsprop_bnb", 1, 32),
        _bnb("rmsprop_bnb_32bit", 1, 32),
        *(
            one._replace(name=f"{one.name}{end}", in_backward=bool(end))
            for one in _GALORE
            for end in ("", "_layerwise")
        ),
        Optimizer("lomo", in_backward=True, single=1.0),
        Optimizer("adalomo", factored=True, in_backward=True, single=3.0),
        Optimizer("grokadamw", moments=3, single=2.0),
        Optimizer("schedule_free_radam", moments=2, foreach=1.0),
        Optimizer("schedule_free_adamw", moments=2, foreach=1.0),
        Optimizer("schedule_free_sgd", moments=1, foreach=1.0),
        Optimizer("stable_adamw", moments=2, single=2.0),
        Optimizer("muon", moments=1, single=3.0),
        Optimizer("muon_beside_adamw", moments=1, tables=2, single=3.0),
    )
}
ALIASES = {
    "adamw": "adamw_torch",
    "adam": "adamw_torch",
    "adamw_torch_foreach": "adamw_torch",
    "adamw_fused": "adamw_torch_fused",
    "paged_adamw": "paged_adamw_32bit",
    "lion": "lion_32bit",
    "paged_lion": "paged_lion_32bit",
    "adamw_bnb": "adamw_bnb_8bit",
    "rmsprop_8bit": "rmsprop_bnb_8bit",
    "adam_8bit": "adamw_8bit",
    "flash_adam": "flash_adamw",
    "fused_adam": "adamw_torch_fused",
    "came_pytorch": "came",
    "ao_adamw_4bit": "adamw_torch_4bit",
    "ao_adamw_8bit": "adamw_torch_8bit",
    "ao_adamw_fp8": "adamw_torch_fp8",
    "adamwschedulefree": "schedule_free_adamw",
    "radamschedulefree": "schedule_free_radam",
    "sgdschedulefree": "schedule_free_sgd",
    "muon_with_aux_adam": "muon_beside_adamw",
    "single_device_muon_with_aux_adam": "muon_beside_adamw",
}
NAMES = tuple(_TABLE)
IN_BACKWARD = "_in_backward"  # after a name: weights are stepped as their gradients come
ONE_BY_ONE = "_one_by_one"  # after a name: one weight after the other, all gradients there


@cache
def _by_class() -> dict[str, Optimizer]:
    """The optimizers by their names as classes have them, in small letters: ``pagedadamw8bit``.
    The Trainer alone sees to the states of embeddings."""
    named = {**{name: name for name in NAMES}, **ALIASES}
    return {
        key.replace("_", ""): _TABLE[name]._replace(wide_embeddings=False)
        for key, name in named.items()
    }


def find_optimizer(name: str) -> Optimizer | None:
    """The optimizer of transformers' name, or of a class or a common other one; None if unknown."""
    lowered = name.strip().lower()
    plain = lowered.removesuffix(IN_BACKWARD)
    each = plain.removesuffix(ONE_BY_ONE)
    found = _TABLE.get(ALIASES.get(each, each)) or _by_class().get(each.replace("_", ""))
    if found is None or each == lowered:
        return found
    # One weight after the other: a root and a quotient of the one at hand.
    single = found.single or 2 * found.foreach
    return found._replace(name=lowered, in_backward=plain != lowered, foreach=0.0, single=single)


def state_bytes(
    optimizer: Optimizer,
    numel: int,
    width: int,
    rows: int = 0,
    columns: int = 0,
    *,
    embedding: bool = False,
    head: bool = False,
) -> int:
    """Bytes of the states of one parameter.

    Args:
        numel: its numbers, on this rank. width: bytes of one.
        rows, columns: its shape where it is a matrix.
        embedding: whether it is a token table. head: whether it is the output matrix; subspace
            optimizers are given the layers' matrices alone.
    """
    if optimizer.factored:
        if rows > 1 and columns > 1:
            return 4 * (rows + columns)
        return 4 * numel
    if optimizer.rank and min(rows, columns) > optimizer.rank and not (embedding or head):
        short, long = min(rows, columns), max(rows, columns)
        projector = short * optimizer.rank * width
        inner = optimizer.rank * long
        each = optimizer.bits / 8 if optimizer.bits else width
        return int(projector + optimizer.moments * inner * each)
    moments = (optimizer.tables if embedding or head else 0) or optimizer.moments
    wide = embedding and optimizer.wide_embeddings
    return _whole_bytes(optimizer, numel, width, moments, wide=wide)


def _whole_bytes(optimizer: Optimizer, numel: int, width: int, moments: int, *, wide: bool) -> int:
    """Bytes of states for all numbers; those of 8 bits or less are float32 for small weights."""
    if optimizer.bits and numel >= optimizer.least and not wide:
        return int(moments * numel * (optimizer.bits / 8 + 4 / optimizer.block))
    moments += optimizer.compensated and width < 4
    return moments * numel * (4 if optimizer.bits else optimizer.fixed or width)
