"""One layer, operation by operation, as the libraries run it.

Each function records on a ``Tape`` what a module's forward does: which tensors it makes, which
autograd keeps, what a kernel needs meanwhile. Sources: ``modeling_llama.py`` and its kin of
transformers, ``lora/layer.py`` of PEFT, ``autograd/_functions.py`` of bitsandbytes, and the saved
tensors of torch's own functions (``derivatives.yaml``). T tokens, D hidden, I inner width.
"""

from memlint.memory.architecture import Layer
from memlint.memory.feed_forward import mlp
from memlint.memory.lifetimes import Value
from memlint.memory.linear_maps import Weights, Work
from memlint.memory.mixers import attention
from memlint.memory.norms import norm
from memlint.memory.tape import Tape


def layer(
    tape: Tape,
    x: Value,
    spec: Layer,
    norm_kind: str,
    weights: Weights,
    work: Work,
    memory: Value | None = None,
    memory_length: int = 0,
    post_norm: bool = False,
) -> Value:
    """A whole layer: x [T, D] -> [T, D]."""
    if post_norm:
        return _post_norm_layer(tape, x, spec, weights, work)
    first = norm(tape, x, norm_kind, work, "input norm")
    mixed = attention(tape, first, spec.attention, weights, work)
    tape.touch(first)
    if spec.parallel:
        second = first if spec.norms == 1 else norm(tape, x, norm_kind, work, "mlp norm")
        forward = mlp(tape, second, spec.mlp, weights, work)
        both = tape.add("attention and mlp", mixed, forward)
        tape.touch(mixed)
        return tape.add("layer output", x, both)
    if spec.norms == 4:
        mixed = norm(tape, mixed, norm_kind, work, "attention output norm")
    mixed = _dropout(tape, mixed, spec, work)
    middle = tape.add("after attention", x, mixed)
    tape.touch(x)
    if spec.cross is not None and memory is not None:
        query_input = norm(tape, middle, norm_kind, work, "cross norm")
        crossed = attention(
            tape, query_input, spec.cross, weights, work, memory=memory, memory_length=memory_length
        )
        crossed = _dropout(tape, crossed, spec, work)
        middle = tape.add("after cross attention", middle, crossed)
    second = norm(tape, middle, norm_kind, work, "mlp norm")
    forward = mlp(tape, second, spec.mlp, weights, work)
    if spec.norms == 4:
        forward = norm(tape, forward, norm_kind, work, "mlp output norm")
    forward = _dropout(tape, forward, spec, work)
    return tape.add("layer output", middle, forward)


def _post_norm_layer(tape: Tape, x: Value, spec: Layer, weights: Weights, work: Work) -> Value:
    """BERT's order: attention, dropout, add, norm; mlp, dropout, add, norm."""
    mixed = _dropout(tape, attention(tape, x, spec.attention, weights, work), spec, work)
    middle = norm(tape, tape.add("after attention", mixed, x), "layer", work, "attention norm")
    forward = _dropout(tape, mlp(tape, middle, spec.mlp, weights, work), spec, work)
    return norm(tape, tape.add("after mlp", forward, middle), "layer", work, "mlp norm")


def _dropout(tape: Tape, x: Value, spec: Layer, work: Work) -> Value:
    if spec.dropout <= 0 or not work.training:
        return x
    return tape.op("dropout", (x,), x.elements, x.width, keeps=x.elements)
