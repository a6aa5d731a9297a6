"""Layer and RMS norms on the tape, written out or as one kernel."""

from memlint.memory.lifetimes import Value
from memlint.memory.linear_maps import Work, cast
from memlint.memory.tape import Tape


def norm(tape: Tape, x: Value, kind: str, work: Work, name: str = "norm") -> Value:
    """A norm over D; the output's dtype as the implementation leaves it."""
    if kind == "layer" or kind == "none":
        return _layer_norm(tape, x, work, name)
    if work.norm_kernel == "fused":
        width = x.width
        rows = x.elements // 1024
        return tape.op(name, (x,), x.elements, width, saves=(x,), keeps=4 * rows)
    return _rms_norm(tape, x, kind, work, name)


def _layer_norm(tape: Tape, x: Value, work: Work, name: str) -> Value:
    source = cast(tape, x, 4, f"{name} input") if work.autocast else x
    return tape.op(name, (source,), x.elements, source.width, saves=(source,), backward_scratch=0)


def _rms_norm(tape: Tape, x: Value, kind: str, work: Work, name: str) -> Value:
    """transformers' RMS norm: float32 inside, the square and both products as tensors."""
    wide = cast(tape, x, 4, f"{name} in float32")
    tape.op(f"{name} square", (wide,), x.elements, 4, saves=(wide,), grad=False)
    scaled = tape.op(
        f"{name} scaled", (wide,), x.elements, 4, saves=(wide,), backward_scratch=2 * 4 * x.elements
    )
    if kind == "gemma":
        output = tape.op(
            f"{name} weighted",
            (scaled,),
            x.elements,
            4,
            saves=(scaled,) if work.norm_trainable else (),
        )
        result = cast(tape, output, x.width, f"{name} output")
    else:
        narrow = cast(tape, scaled, x.width, f"{name} normalized")
        result = tape.op(
            f"{name} output",
            (narrow,),
            x.elements,
            max(x.width, min(work.norm_width, 4)),
            saves=(narrow,) if work.norm_trainable else (),
        )
    tape.touch(scaled)
    return result
