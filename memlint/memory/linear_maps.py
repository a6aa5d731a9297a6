"""Linear maps on the tape: how a weight is held, its matmul, its quantized codes, its adapter."""

from memlint.memory.architecture import Linear
from memlint.memory.lifetimes import Value
from memlint.memory.tape import Tape
from memlint.source.record import Record


class Weight(Record):
    """How a linear map's weight is held.

    stored: bytes of one weight number in GPU memory (0 for quantized). gradient: bytes of one
    number of its gradient. rank: of its adapter (0: none). dequantized: bytes of one number of
    the copy that a quantized matmul makes (0: none, the kernel reads the codes). keeps_input:
    whether a quantized matmul keeps its input for backward; keeps_codes: its 8-bit copy as well.
    computes: bytes of the dtype that a quantized matmul asks for (0: that of the run).
    eight_bit: whether the matmul is bitsandbytes' 8-bit one, over integers. dora: whether the
    adapter scales both results by trained magnitudes. frozen_a: whether its first matrix is fixed,
    so that its input is not kept.
    """

    trainable: bool = True
    stored: int = 2
    gradient: int = 2
    quantized: bool = False
    dequantized: int = 0
    rank: int = 0
    adapter_width: int = 4
    adapter_dropout: float = 0.0
    keeps_input: bool = False
    keeps_codes: bool = False
    eight_bit: bool = False
    computes: int = 0
    dora: bool = False
    frozen_a: bool = False


class Work(Record):
    """What the numbers of one pass are.

    batch, length: sequences and their tokens; tokens: batch x length. compute: bytes of the
    compute dtype. autocast: whether matmuls cast their inputs. attention: implementation.
    norm_kernel: ``eager`` (transformers' own) or ``fused`` (Liger, Apex, torch's rms_norm).
    gated_kernel: whether SwiGLU is one kernel (Liger). mask: whether sdpa gets a mask.
    repeat_keys: whether keys and values are copied for each query head.
    softmax_width: bytes of the softmax of materialized scores; most families take float32.
    softmax_keeps_input: whether a softmax keeps its input for backward, as old torch did.
    joined_projections: whether queries, keys and values are one matmul, with one adapter.
    tiled: whether an MLP goes over its tokens in tiles.
    relative: how a trained bias of positions lies (T5): in one ``piece``, or ``scattered``.
    recasts: whether weights of 16 bits are cast to the other dtype of as many.
    """

    batch: int
    length: int
    compute: int
    autocast: bool
    attention: str
    norm_kernel: str = "eager"
    gated_kernel: bool = False
    rotary_kernel: bool = False
    mask: bool = False
    repeat_keys: bool = False
    training: bool = True
    norm_trainable: bool = True
    norm_width: int = 2
    grouped_experts: bool = True
    fused_activations: bool = False
    softmax_width: int = 4
    softmax_keeps_input: bool = False
    compile: bool = False
    joined_projections: bool = False
    tiled: bool = False
    relative: str = ""
    recasts: bool = False

    @property
    def tokens(self) -> int:
        return self.batch * self.length


class Weights(Record):
    """Looks up how each linear map is held; ``default`` where a name says nothing."""

    default: Weight
    named: dict[str, Weight] = {}  # noqa: RUF012 - read only

    def of(self, linear: Linear) -> Weight:
        return self.named.get(linear.name, self.default)


def cast(tape: Tape, x: Value, width: int, name: str) -> Value:
    """x in another dtype: a new tensor, nothing kept."""
    return x if x.width == width else tape.op(name, (x,), x.elements, width)


def linear(
    tape: Tape, x: Value, layer: Linear, weight: Weight, work: Work, tokens: int | None = None
) -> Value:
    """x @ W (+ b), with its adapter: x [T, in] -> [T, out]."""
    count = tokens if tokens is not None else x.elements // layer.inputs
    out = count * layer.outputs
    base = _base(tape, x, layer, weight, work, out)
    if not weight.rank:
        return base
    return _adapter(tape, x, base, layer, weight, work, count)


def _base(tape: Tape, x: Value, layer: Linear, weight: Weight, work: Work, out: int) -> Value:
    if weight.quantized:
        return _quantized_base(tape, x, layer, weight, work, out)
    matrix = layer.inputs * layer.outputs
    width = work.compute if work.autocast else x.width
    source = cast(tape, x, width, f"{layer.name} input")
    recast = weight.stored > width or (work.recasts and weight.stored == width)
    output = tape.op(
        layer.name,
        (source,),
        out,
        width,
        saves=(source,) if weight.trainable else (),
        weight_bytes=matrix * weight.gradient if weight.trainable else 0,
        backward_scratch=matrix * width if recast and weight.trainable else 0,
    )
    if recast and output.grad:
        # The cast weight is what backward multiplies with, so autograd keeps it.
        tape.keep(f"{layer.name} weight in the compute dtype", matrix * width, "weight copies")
    return output


def _quantized_base(
    tape: Tape, x: Value, layer: Linear, weight: Weight, work: Work, out: int
) -> Value:
    """A matmul whose weight comes out of its codes while it runs, forward and backward."""
    requested = weight.computes or work.compute
    source = cast(tape, x, requested, f"{layer.name} input")
    scratch = backward_scratch = layer.inputs * layer.outputs * weight.dequantized
    if weight.eight_bit:
        # Forward: 16-bit and 8-bit inputs, the integer product. Backward: the weight in 16
        # bits, in old versions codes of the gradient as well.
        scratch = 3 * source.elements + 4 * out
        backward_scratch += 4 * out if weight.keeps_codes else 0
    result = tape.op(
        layer.name,
        (source,),
        out,
        work.compute if work.autocast else requested,
        scratch=scratch,
        saves=(source,) if weight.keeps_input else (),
        keeps=source.elements if weight.keeps_codes else 0,
        backward_scratch=backward_scratch,
    )
    if weight.keeps_input and result.grad:
        tape.stash(source)
    return cast(tape, result, x.width, f"{layer.name} output")


def _adapter(
    tape: Tape, x: Value, base: Value, layer: Linear, weight: Weight, work: Work, tokens: int
) -> Value:
    """base + scale * B(A(dropout(x))), PEFT's ``Linear.forward``; over quantized weights it leaves
    the casts to autocast."""
    name = layer.name
    rank = weight.rank
    plain = weight.quantized and work.autocast
    own = x if plain else cast(tape, x, weight.adapter_width, f"{name} adapter input")
    low = own
    if weight.adapter_dropout > 0 and work.training:
        low = tape.op(
            f"{name} adapter dropout", (own,), own.elements, own.width, keeps=own.elements
        )
    width = work.compute if work.autocast else own.width
    low = cast(tape, low, width, f"{name} adapter cast")
    first = tape.op(
        f"{name} adapter A",
        (low,),
        tokens * rank,
        width,
        saves=() if weight.frozen_a else (low,),
        grad=None if weight.frozen_a else True,
        weight_bytes=0 if weight.frozen_a else layer.inputs * rank * weight.adapter_width,
    )
    second = tape.op(
        f"{name} adapter B",
        (first,),
        tokens * layer.outputs,
        width,
        saves=(first,),
        weight_bytes=layer.outputs * rank * weight.adapter_width,
    )
    if weight.dora:
        seen = base
        if weight.adapter_dropout > 0 and work.training:
            # The base's map comes again, over what dropout left and a copy of its weight.
            seen = tape.op(f"{name} after dropout", (low,), base.elements, width)
            copied = weight.quantized or {own.width, weight.stored} != {width}
            size = layer.inputs * layer.outputs * width * copied
            tape.keep(f"{name} weight again", size, "weight copies")
        scaled = _by_magnitude(tape, seen, second, layer, weight)
    else:
        scaled = tape.op(f"{name} adapter scaled", (second,), second.elements, width)
    total = tape.add(f"{name} output", base, scaled)
    tape.touch(own)
    tape.touch(x)  # an argument of the map, which its caller holds
    return cast(tape, total, base.width, f"{name} result")


def _by_magnitude(tape: Tape, base: Value, low: Value, layer: Linear, weight: Weight) -> Value:
    """What DoRA adds to the base's result: both results by the magnitude of each output over the
    norm of the adapted matrix, which is computed in full."""
    square, matrix = layer.inputs**2, layer.inputs * layer.outputs
    norm = (square + 2 * matrix) * weight.adapter_width + matrix * base.width
    parts = [
        tape.op(
            f"{layer.name} magnitude of {name}",
            (x,),
            x.elements,
            low.width,
            saves=(x,),
            scratch=scratch,
        )
        for name, x, scratch in (("base", base, norm), ("adapter", low, 0))
    ]
    return tape.add(f"{layer.name} magnitudes", *parts)
