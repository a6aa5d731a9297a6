"""What mended faults save where the phases of a step do not show it: by their own arithmetic."""

from collections.abc import Callable, Mapping

from memlint.memory.lifetimes import most_at_once
from memlint.memory.timeline import Timeline
from memlint.memory.weights import frozen_bytes

HELD = "of the room that the allocator needs"  # where there is no phase to name
# Of a peak: holes that are worth no word, and what pages of segments that grow take.
_FEW, _PAGES = 0.05, 1.01
# 371 of 387 published runs are on GPUs of so many bytes and more.
_SMALL_GPU = 24 * 2**30


def saved_apart(
    effect: Mapping[str, object], timeline: Callable[[], Timeline]
) -> tuple[str, int] | None:
    """When an effect that is no setting of a run saves how many bytes; None: it is a setting."""
    for name, value in effect.items():
        if name in _APART and (name != "checkpointing" or value == "non_reentrant"):
            return _APART[name](timeline(), value)
    return None


def _graph(timeline: Timeline, _: object) -> tuple[str, int]:
    """The activations of one evaluation batch."""
    settings = timeline.settings
    share = (settings.eval_batch or settings.micro_batch or 1) / (settings.micro_batch or 1)
    return "evaluation", int(share * sum(tensor.bytes for tensor in timeline.saved.upto()))


def _unused_logits(timeline: Timeline, of: object) -> tuple[str, int]:
    """Logits of 1,024 tokens less what layers need for them in any case; or those of a prompt, in
    training with the zeros that backward makes for them."""
    run, architecture = timeline.run, timeline.architecture
    word = architecture.vocabulary * max(run.compute, 2)
    if of != "others":
        return "loss", (2 if of == "prompt" else 1) * 1024 * word
    work = max(map(most_at_once, (stack.trace.plain for stack in timeline.recording.stacks)))
    # The last states beside logits are no more than the input of the layer at work.
    return "forward", 1024 * (word - work // (run.rows * run.length))


def _holes(timeline: Timeline, _: object) -> tuple[str, int]:
    """What a run needs in segments of fixed sizes beyond what one that grows does, which gives back
    every free page; nothing where the GPU has room for it."""
    from memlint.memory.estimates import reserved_share

    peak, gpu = max(phase.total for phase in timeline.phases()), timeline.run.gpu
    needed = int(peak * reserved_share(timeline, needed=True))
    saved = needed - int(_PAGES * peak)
    counts = saved > _FEW * peak and needed > (gpu.room if gpu else _SMALL_GPU)
    return HELD, saved if counts else 0


_APART: Mapping[str, Callable[[Timeline, object], tuple[str, int]]] = {
    "second_load": lambda run, dtype: (
        "after training",
        frozen_bytes(run.architecture, str(dtype), run.settings.versions),
    ),
    "checkpoint_on_gpu": lambda run, _: ("load", run.standing.checkpoint()),
    "expandable": _holes,
    # DDP's buckets are as large as the gradients.
    "bucket_copies": lambda run, _: ("from the first backward pass on", run.standing.gradients()),
    "graph_in_evaluation": _graph,
    "unused_logits": _unused_logits,
    # Embeddings and output matrix in 4 bytes where 2 would do.
    "upcast_tables": lambda run, _: (
        "all through the run",
        2 * (run.architecture.embedding_parameters + run.architecture.head_parameters),
    ),
    # Reentrant checkpointing holds the output of the layer that runs backward.
    "checkpointing": lambda run, _: ("backward", run.recording.stacks[-1].replay.output),
}
