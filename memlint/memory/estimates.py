"""What a run needs on its fullest GPU: allocated, reserved by the allocator, seen by nvidia-smi."""

from collections.abc import Mapping
from typing import Any

from memlint.memory import facts
from memlint.memory.architecture import Architecture
from memlint.memory.assume import Assumption, assume
from memlint.memory.by_gpus import OnGpus, on_gpus, peak_with
from memlint.memory.checkpoints import architecture_of
from memlint.memory.gpus import Gpu
from memlint.memory.lifetimes import Tensor
from memlint.memory.optimizers import state_bytes
from memlint.memory.reserving import Play, needed_over_allocated, reserved_over_allocated
from memlint.memory.settings import Settings, read_settings
from memlint.memory.timeline import Phase, Timeline, cache_bytes
from memlint.memory.trainer_kinds import kind_of
from memlint.memory.training_run import TrainingRun
from memlint.rule.savings import ends, verdict
from memlint.source.record import Record

_NCCL = 600 * 2**20  # communicators' buffers, outside torch's allocator
# Where nothing packs, each batch longer than all before it needs new segments, and halves, on
# average, what is left to the longest. A thousand batches of lengths drawn evenly reserve what
# seven of these do, of lengths as texts have them (lognormal) what five do.
_RECORDS = 7
_VARYING = (*(1 - 0.5**index for index in range(1, _RECORDS)), 1.0)


# What segments that grow reserve of what is allocated: many lengths, measured on an H200.
_GROWN = 1.1
_LEAST = 0.01  # of the peak: less is no other number
_OTHERS: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("weights_dtype", "compute_dtype"), ("float32", "bfloat16")),
    "checkpointing": ("none", "full"),
    "gradient_accumulation": (1, 2),
    "streamed": (False, True),
    "loss": ("full_logits", "chunked"),
    "optimizer": ("sgd", "adamw_torch"),
    "logits_copies": (0, 4),
    "quantization.type": ("none", "nf4"),
    "quantization.kbit_preparation": (False, True),
    "sharding": ("ddp", "zero3"),
    "trainer": ("trl.SFTTrainer", "trl.DPOTrainer"),
    "method": ("full", "lora"),
    "frozen": ("none", "embeddings", "backbone"),
}
_COUNTS = (
    *("micro_batch", "seq_len", "label_len", "prompt_len", "completion_len", "group_size"),
    *("eval_batch", "eval_rows", "lora.r", "world_size"),
)


class Interval(Record):
    """Bytes: the least and most that the settings allow, and the best estimate."""

    low: int
    estimate: int
    high: int

    def to_json(self) -> dict[str, int]:
        return {"low": self.low, "estimate": self.estimate, "high": self.high}


class Estimate(Record):
    """What a run needs on one GPU. by_gpus: the same on other numbers, where these are open."""

    settings: Settings
    architecture: Architecture
    allocated: Interval
    reserved: Interval
    nvidia_smi: Interval
    phases: tuple[Phase, ...]
    assumptions: tuple[Assumption, ...]
    gpu: Gpu | None
    parameters: int
    trainable: int
    by_gpus: tuple[OnGpus, ...] = ()

    @property
    def peak(self) -> Phase:
        """The fullest phase."""
        return max(self.phases, key=lambda phase: phase.total)

    @property
    def fits(self) -> bool | None:
        """False if the run certainly does not fit the GPU; None where no GPU was named.

        Cached blocks go back to the GPU before torch gives up, so that not all that could be
        reserved must fit: what is allocated and the context must.
        """
        return None if self.gpu is None else self.verdict != "does not fit"

    @property
    def verdict(self) -> str:
        """``fits``, ``is tight on`` or ``does not fit``, by the interval; empty without a GPU.

        What may fit on more GPUs, where nobody says how many there are, is tight.
        """
        if self.gpu is None:
            return ""
        said = verdict(self.allocated.low, self.allocated.high, self.gpu.room)
        depends = any(one.verdict != "does not fit" for one in self.by_gpus)
        return "is tight on" if depends and said == "does not fit" else said

    def to_json(self) -> dict[str, Any]:
        return {
            "allocated": self.allocated.to_json(),
            "reserved": self.reserved.to_json(),
            "nvidia_smi": self.nvidia_smi.to_json(),
            "phases": [phase.to_json() for phase in self.phases],
            "peak_phase": self.peak.name,
            "assumptions": [assumption.to_json() for assumption in self.assumptions],
            "fits": self.fits,
            "verdict": self.verdict.removeprefix("is ").removesuffix(" on"),
            "gpu": self.gpu.to_json() if self.gpu else None,
            "parameters": self.parameters,
            "trainable_parameters": self.trainable,
            "by_gpus": [each.to_json() for each in self.by_gpus],
        }


def estimate(settings: Settings | Mapping[str, Any]) -> Estimate:
    """The memory of a run on its fullest GPU.

    Raises:
        SettingsError: a setting is unknown or impossible, or the model is not known.
    """
    given = settings if isinstance(settings, Settings) else read_settings(settings)
    architecture = _as_run(given)
    known = assume(given, architecture)
    run = _estimate(known.settings, architecture, known.assumptions)
    peak = run.allocated.estimate
    weighed = [_weigh(given, architecture, each, peak) for each in known.assumptions]
    weighed.sort(key=lambda pair: -abs(pair[0].peak - peak) if pair[0].peak else 0)
    run = run._replace(
        assumptions=tuple(each for each, _ in weighed),
        by_gpus=on_gpus(given, architecture, known, run.gpu),
    )
    doubted = given.notes.keys() - {"sharding"}
    open_ = [size for each, sizes in weighed if each.name in doubted for size in sizes]
    if "sharding" in given.notes:
        here = known.settings.world_size
        open_ += [one.peak for one in run.by_gpus if one.world_size == here]
    if open_:
        run = _widened(run, open_)
    if not known.settings.longest_first:
        return run
    # The first batch, with nothing left from a step before it, or those that follow.
    length = max((known.settings.seq_len or 1) // 2, 1)
    following = known.settings._replace(seq_len=length, longest_first=False)
    later = _estimate(following, architecture, known.assumptions)
    return max(run, later, key=lambda item: item.allocated.estimate)


def _widened(run: Estimate, peaks: list[int]) -> Estimate:
    """The estimate with room for what a script has and nobody could read. peaks: what it may be."""
    peak = run.allocated.estimate
    less, more = max(peak - min(peaks), 0), max(max(peaks) - peak, 0)
    wide = {
        name: each._replace(low=max(each.low - less, 0), high=each.high + more)
        for name in ("allocated", "reserved", "nvidia_smi")
        if isinstance(each := getattr(run, name), Interval)
    }
    return run._replace(**wide)


def _weigh(
    given: Settings, architecture: Architecture, one: Assumption, peak: int
) -> tuple[Assumption, list[int]]:
    """An assumption with the other value that changes the peak most, and all others' peaks."""
    others = [each for each in _OTHERS.get(one.name, ()) if each != one.value]
    if one.name in _COUNTS and isinstance(one.value, int):
        others = [max(one.value // 2, 1), 2 * one.value]
    sizes: list[int] = []
    best = one
    for other in others:
        size = peak_with(given, architecture, **{one.name: other})
        if size is not None:
            sizes.append(size)
            if abs(size - peak) > max(abs((best.peak or peak) - peak), _LEAST * peak):
                best = one._replace(other=other, peak=size)
    return best, sizes


def single_tensors(settings: Settings | Mapping[str, Any]) -> tuple[tuple[str, Tensor], ...]:
    """Every size that a run asks the allocator for: phase and tensor, the largest first.

    One layer's tensors (of each kind of layer), the loss's, whole weights with their gradients,
    states and step temporaries, gathered layers and the key/value cache of one layer.
    """
    given = settings if isinstance(settings, Settings) else read_settings(settings)
    architecture = _as_run(given)
    known = assume(given, architecture)
    return singles_of(Timeline(TrainingRun(known.settings, architecture)))


def _as_run(settings: Settings) -> Architecture:
    """The model as the run's library builds it."""
    architecture = architecture_of(settings)
    if facts.uses_litgpt(settings.versions):
        # Its RMS norm multiplies by the weight in float32, as Gemma's does.
        norm = "gemma" if architecture.norm == "rms" else architecture.norm
        return architecture._replace(tied=False, norm=norm)
    return architecture


def _estimate(
    settings: Settings, architecture: Architecture, assumptions: tuple[Assumption, ...]
) -> Estimate:
    timeline = Timeline(TrainingRun(settings, architecture))
    phases, gpu = timeline.phases(), timeline.run.gpu
    peak = max(phase.total for phase in phases)
    base, adapter = timeline.standing.trained()
    low, high = ends(peak)
    allocated = Interval(low, peak, high)
    reserved = int(peak * (_GROWN if settings.expandable else reserved_share(timeline)))
    if gpu is not None and peak < gpu.room:
        # The allocator gives cached blocks back before it takes more than the GPU has.
        reserved = min(reserved, gpu.room)
    high = int(reserved * 1.1 + 0.4 * (reserved - peak))
    context = gpu.context if gpu else 500 * 2**20
    if timeline.sharding.world > 1:
        context += _NCCL
    if not facts.reaches(timeline.settings.versions, facts.LAZY_KERNELS):
        context = max(context, 1343 * 2**20)
    paged = 0
    if timeline.optimizer.paged:
        part = timeline.sharding.states / timeline.sharding.split
        paged = timeline.standing.states(part)
    return Estimate(
        settings=timeline.settings,
        architecture=timeline.architecture,
        allocated=allocated,
        reserved=Interval(low, reserved, high),
        nvidia_smi=Interval(
            low + context * 3 // 4, reserved + context, high + context * 3 // 2 + paged
        ),
        phases=phases,
        assumptions=assumptions,
        gpu=gpu,
        parameters=timeline.architecture.parameters,
        trainable=base + adapter,
    )


def reserved_share(timeline: Timeline, *, needed: bool = False) -> float:
    """What the caching allocator takes from the GPU for each byte that it hands out; what it cannot
    do without, if only that is ``needed``."""
    settings, sharding, holding = timeline.settings, timeline.sharding, timeline.holding
    optimizer, standing = timeline.optimizer, timeline.standing
    resident = standing.resident()
    stack = max(timeline.recording.stacks, key=lambda item: item.count)
    states = sum(tensor.bytes for tensor in resident if tensor.kind == "optimizer states")
    gathered, layers = _gathered(timeline)
    fixed = sum(tensor.bytes for tensor in resident) - states + gathered
    base, adapter = standing.trained()
    trained = max(holding.working, 4 * holding.prepared)
    whole = max(base * trained + adapter * holding.adapter_width, 1)
    share = 0.0 if optimizer.in_backward else standing.gradients() / whole
    accumulating = standing.keeps_gradients()
    if accumulating:
        fixed += max(standing.accumulated() - standing.gradients(), 0)
    # Temporaries of the step, where it runs on the GPU.
    stepping = 0.0 if standing.states_offloaded() else share
    one_length = settings.packed or settings.fixed_length
    gpu = timeline.run.gpu
    share_reserved = (needed_over_allocated if needed else reserved_over_allocated)(
        Play(
            layer=stack.trace,
            head=timeline.recording.head.trace,
            depth=max(int(timeline.architecture.depth / sharding.split), 1),
            checkpointed=settings.checkpointing in ("full", "reentrant"),
            offloaded=timeline.saved.offloads(),
            input_kept=any(tensor.name == "layer input" for tensor in stack.replay.saved_tensors),
            input=stack.input,
            gradients=share,
            states=states / whole,
            temporaries=optimizer.foreach * stepping,
            single=optimizer.single * 4 * stepping / trained,
            single_most=standing.single_temporary(),
            embedding=holding.embedding().largest * trained,
            tied=timeline.architecture.tied,
            gathered=layers,
            fixed=fixed,
            leak=bool(timeline.saved.reentrant_leak()),
            capacity=gpu.room if gpu else 0,
            scales=(1.0, 1.0) if one_length else _VARYING,
            windows=_windows(2 if accumulating else 1, settings, bool(one_length)),
        )
    )
    return max(share_reserved, 1.01)


def _windows(least: int, settings: Settings, one_length: bool) -> tuple[int, ...]:
    """How many micro-batches make a step, in each play.

    Where lengths vary, gradients may come between the growing batches or stay from the first to
    the longest: both happen, and either may reserve more.
    """
    most = min(settings.gradient_accumulation or 1, _RECORDS)
    return (least,) if one_length or most <= least else (least, most)


def _gathered(timeline: Timeline) -> tuple[int, int]:
    """Bytes of whole weights that stay as they are, and of one layer's that come and go."""
    gather = timeline.standing.gather()
    if not gather:
        return 0, 0
    if timeline.sharding.live_parameters:
        return sum(tensor.bytes for tensor in gather), 0
    return gather[0].bytes, gather[1].bytes // 2


# -- sizes, one tensor at a time -------------------------------------------------------------------


def singles_of(timeline: Timeline) -> tuple[tuple[str, Tensor], ...]:
    """Phases and tensors, the largest first."""
    run, standing, optimizer = timeline.run, timeline.standing, timeline.optimizer
    architecture, width = timeline.architecture, timeline.holding.width
    matrices = {
        (linear.name, linear.inputs, linear.outputs * linear.experts)
        for stack in timeline.recording.stacks
        for linear in stack.layer.linears
    }
    ends = architecture.vocabulary, architecture.hidden
    matrices |= {("embeddings", *ends), ("lm_head", *ends)}
    found = list(timeline.recording.singles)
    found += [("forward", tensor) for tensor in standing.gather()]

    def add(phase: str, name: str, size: int, kind: str, sizes: str = "") -> None:
        found.append((phase, Tensor(name, size, kind, sizes)))

    for name, rows, columns in sorted(matrices):
        numel, shape = rows * columns, f"{rows} x {columns} x"
        add("load", name, numel * width, "weights", f"{shape} {width} bytes")
        if not timeline.holding.full:
            continue
        size = f"{shape} {width} bytes"
        add("backward", f"gradient of {name}", numel * width, "gradients", size)
        if optimizer.moments:
            states = standing.state_width()
            state = state_bytes(optimizer, numel, states, rows=rows, columns=columns)
            state //= optimizer.moments
            add("optimizer step", f"one state of {name}", state, "optimizer states")
        if optimizer.foreach or optimizer.single:
            each = standing.state_width() if optimizer.foreach else 4
            kind, size = "optimizer temporaries", f"{shape} {each} bytes"
            add("optimizer step", f"temporary of {name}", numel * each, kind, size)
    if kind_of(timeline.settings.trainer).generates:
        attention = timeline.recording.stacks[0].layer.attention
        cache = cache_bytes(attention, run.rows, run.length, run.compute)
        add("generation", "key/value cache of a layer", cache, "kv cache")
    unique = {(phase, tensor.name, tensor.bytes): (phase, tensor) for phase, tensor in found}
    return tuple(sorted(unique.values(), key=lambda item: -item[1].bytes))
