"""Every size that a run asks the allocator for, one tensor at a time."""

from __future__ import annotations

from memlint.memory.lifetimes import Tensor
from memlint.memory.optimizers import state_bytes
from memlint.memory.timeline import Timeline, cache_bytes
from memlint.memory.trainer_kinds import kind_of


def singles_of(timeline: Timeline) -> tuple[tuple[str, Tensor], ...]:
    """Phases and tensors, the largest first."""
    run, standing = timeline.run, timeline.standing
    found = list(timeline.recording.singles)
    width = timeline.holding.width
    matrices = {
        (linear.name, linear.inputs, linear.outputs * linear.experts)
        for stack in timeline.recording.stacks
        for linear in stack.layer.linears
    }
    architecture = timeline.architecture
    for name in ("embeddings", "lm_head"):
        matrices.add((name, architecture.vocabulary, architecture.hidden))
    optimizer = timeline.optimizer
    for name, inputs, outputs in sorted(matrices):
        numel = inputs * outputs
        sizes = f"{inputs} x {outputs} x {width} bytes"
        found.append(("load", Tensor(name, numel * width, "weights", sizes)))
        if not timeline.holding.full:
            continue
        found.append(("backward", Tensor(f"gradient of {name}", numel * width, "gradients", sizes)))
        if optimizer.moments:
            state = (
                state_bytes(optimizer, numel, standing.state_width(), rows=inputs, columns=outputs)
                // optimizer.moments
            )
            found.append(
                ("optimizer step", Tensor(f"one state of {name}", state, "optimizer states"))
            )
        if optimizer.foreach or optimizer.single:
            each = standing.state_width() if optimizer.foreach else 4
            found.append(
                (
                    "optimizer step",
                    Tensor(
                        f"temporary of {name}",
                        numel * each,
                        "optimizer temporaries",
                        f"{inputs} x {outputs} x {each} bytes",
                    ),
                )
            )
    found.extend(("forward", tensor) for tensor in standing.gather())
    found.extend(
        (
            "generation",
            Tensor(
                "key/value cache of a layer",
                cache_bytes(stack.layer.attention, run.rows, run.length, run.compute),
                "kv cache",
            ),
        )
        for stack in timeline.recording.stacks[:1]
        if kind_of(timeline.settings.trainer).generates
    )
    unique = {(phase, tensor.name, tensor.bytes): (phase, tensor) for phase, tensor in found}
    return tuple(sorted(unique.values(), key=lambda item: -item[1].bytes))
