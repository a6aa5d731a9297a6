"""What each finding of a script costs, by two runs of the memory model: with and without its fix.

A price needs the model's shape and enough settings. The shape comes from the shipped table alone,
not from this machine's hub cache: what is found must not depend on what happens to be downloaded.
Settings that nobody gave are assumed; where lengths or batches are, the run is computed at half
and at twice of them as well, and the price is the interval of all. Where neither is known, or the
saving depends on lengths that nobody has seen, the price is that of a stated batch, which it names;
where no name says which language model is trained, that of a usual model, which it names too.
Cost: one run of the model takes a millisecond; each set of changes is computed once, and a layer
or a loss that several of them have is recorded once.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from memlint.memory.apart import HELD, saved_apart
from memlint.memory.architecture import Architecture
from memlint.memory.assume import assume
from memlint.memory.checkpoints import find_architecture, find_config, with_head
from memlint.memory.config_values import ConfigError
from memlint.memory.gpus import Gpu, find_gpu
from memlint.memory.optimizers import IN_BACKWARD
from memlint.memory.settings import Settings, SettingsError, replace, with_pricing
from memlint.memory.timeline import STEP, Phase, Timeline
from memlint.memory.trainer_kinds import head_of, kind_of
from memlint.memory.training_run import TrainingRun
from memlint.rule.findings import Applicability, Finding, Level
from memlint.rule.savings import Footprint, Pricing, Saving
from memlint.source.kept import kept
from memlint.source.record import NamedTuple

_WIDTH = 0.05  # of a saving: the model's own width over measured runs
_LEAST = 2**20  # bytes that are worth a word
_WORTH = 32 * 2**20  # bytes of the peak that are worth more than those of another phase,
_SHARE = 0.005  # and their least share of it
# Effects that are told where the peak falls by more bytes than so many.
_WORTH_IT = {"expandable=True": 0, "bucket_copies=False": 2**29, "padding=generation": 2**29}
_ROWS = 1000  # of which one is as long as rows may be
_USUAL_GPU = 80 * 2**30
_SETTINGS = {"checkpoint_on_gpu": "held_checkpoint"}  # where it stays there
_MEASURES = ("seq_len", "micro_batch", "prompt_len", "completion_len")


Changes = tuple[tuple[str, Any], ...]


class Priced(NamedTuple):
    """The findings with what each saves, and the run's footprint; None where it is unknown."""

    findings: list[Finding]
    footprint: Footprint | None = None


class Run:
    """The run of a script, as it is and with changes."""

    def __init__(self, settings: Settings, architecture: Architecture) -> None:
        self._given = settings
        self._architecture = architecture
        known = assume(settings, architecture)
        self.known = known.settings
        self._open = _open(settings, self.known)
        self.assumed = tuple(f"{name}={getattr(self.known, name)}" for name in self._open)
        self.gpu: Gpu | None = find_gpu(settings.gpu) if settings.gpu else None
        scales = () if self.is_guess else _scales(self._open, self.known, architecture)
        self._scales: tuple[Changes, ...] = ((), *scales)

    @property
    def is_guess(self) -> bool:
        """True if neither rows nor lengths of its batches are known: numbers would mean nothing."""
        return {"micro_batch", "seq_len"} <= set(self._open)

    @property
    def batch(self) -> str:
        """``at 4 rows of 2,048 tokens (assumed)``."""
        rows, tokens = self.known.micro_batch or 1, self.known.seq_len or 1
        said = f"at {rows} {'row' if rows == 1 else 'rows'} of {tokens:,} tokens"
        return said + " (assumed)" * bool(self._open)

    @property
    def room(self) -> int:
        """Bytes that may be allocated on the GPU; 0 where none is named."""
        return self.gpu.room if self.gpu is not None else 0

    @property
    def depth(self) -> int:
        """Layers of the model."""
        return self._architecture.depth

    @property
    def longest(self) -> int:
        """Tokens that the model has positions for; 0: unknown."""
        return self._architecture.max_positions

    def settled(self, changes: Changes) -> Changes:
        """The changes, less those of settings that are themselves assumed: they save a guess."""
        return tuple(pair for pair in changes if pair[0] not in self._open)

    @kept
    def phases(self, changes: Changes = ()) -> tuple[Phase, ...]:
        """The run's phases with other values for some settings.

        Raises:
            SettingsError: a value cannot be.
        """
        return Timeline(TrainingRun(self.with_changes(changes), self._architecture)).phases()

    def with_changes(self, changes: Changes) -> Settings:
        """All settings of the run with other values for some."""
        settings = replace(self._given, **dict(changes)) if changes else self._given
        return assume(settings, self._architecture).settings

    @kept
    def peak(self, changes: Changes = ()) -> int:
        """Bytes allocated at the fullest phase."""
        return max(phase.total for phase in self.phases(changes))

    def on_host(self, changes: Changes = ()) -> int:
        """Bytes that wait in the host's memory."""
        return Timeline(TrainingRun(self.with_changes(changes), self._architecture)).on_host()

    def peaks(self, changes: Changes = ()) -> tuple[int, int]:
        """The least and the most that the peak may be, as lengths and batches turn out."""
        found = [
            self.peak(merged((scale, changes)) if scale else changes) for scale in self._scales
        ]
        return int(min(found) * (1 - _WIDTH)), int(max(found) * (1 + _WIDTH))

    def usual_saving(self, padding: str) -> Saving | None:
        """What it saves to pad rows to the ``longest`` of their batch, not to one length, or not at
        all (``none``), or completions to the longest of their own batch and not of all that were
        generated with it (``generation``): lengths are usual ones, for nobody has seen them.

        Lengths are taken as exponentially distributed, the longest of a thousand as long as rows
        may be: the longest of B rows is H_B = 1 + 1/2 + ... + 1/B times the mean.
        """
        kind, generated = kind_of(self.known.trainer), padding == "generation"
        rows = (self.known.micro_batch or 1) * kind.rows
        name = "completion_len" if generated else "seq_len"
        limit = getattr(self.known, name) or 1
        counts = 1, rows, rows * (self.known.gradient_accumulation or 1)
        scale = limit / _harmonic(_ROWS)
        mean, longest, of_all = (min(round(scale * _harmonic(each)), limit) for each in counts)
        pairs = {"longest": (limit, longest), "generation": (of_all, longest)}
        before, after = pairs.get(padding, (longest, mean))
        if kind.generates != generated or after >= before:
            return None
        found = self.saving(((name, max(after, 1)),), ((name, before),))
        if generated and found is not None and found.phase == "evaluation":
            # Which generates for one batch at a time.
            return None
        said = f"in a usual batch ({after:,} tokens a row, not {before:,})"
        return None if found is None else found._replace(at=said)

    def unbounded_saving(self, limit: int) -> Saving | None:
        """What it saves to cut a row of twice the limit, where nobody knows how long rows are."""
        if "seq_len" not in self._open:
            return None
        length = min(2 * limit, self.longest or 2 * limit)
        found = self.saving((("seq_len", limit),), (("seq_len", length),))
        said = f"for rows of {length:,} tokens, cut to {limit:,}"
        return None if found is None else found._replace(at=said)

    def saved_apart(self, effect: Mapping[str, object]) -> Saving | None:
        """What an effect saves that is no setting of the run."""
        run = TrainingRun(self.known, self._architecture)
        phase, size = saved_apart(effect, lambda: Timeline(run)) or ("", 0)
        if not size:
            return None
        by_rows = self._open and phase in ("forward", "evaluation")
        at = self.batch if by_rows or phase.startswith(HELD) else ""
        if "unused_logits" in effect:
            of = " of prompts" * str(effect["unused_logits"]).endswith("prompt")
            at = f"for each 1,024 tokens{of}"
        return Saving(int(size * (1 - _WIDTH)), int(size * (1 + _WIDTH)), phase, at=at)

    def slept_saving(self) -> Saving | None:
        """What vLLM holds beside the trainer, on the GPU that is named or a usual one."""
        share = self.known.generation.get("vllm_gpu_memory_utilization")
        if self.gpu is not None or not self.known.generation.get("vllm") or not share:
            return None
        held = int(share * _USUAL_GPU)
        said = f"on a GPU of {_USUAL_GPU >> 30} GiB (`--gpu` names yours)"
        return Saving(held, held, "forward", at=said)

    def saving(self, changes: Changes, done: Changes = ()) -> Saving | None:
        """What the changes save once others are done; None: nothing, or they cost memory."""
        changes = merged((done, changes))
        before, after = self.phases(done), self.phases(changes)
        top = max(before, key=lambda phase: phase.total)
        left = {phase.name: phase.total for phase in after}
        fall = top.total - max(left.values())
        falls = {one.name: one.total - left.get(one.name, one.total) for one in before}
        cut = max(before, key=lambda phase: falls[phase.name])
        most = falls.pop(cut.name)
        if fall < 0 or max(fall, most) < _LEAST:
            return None
        if cut.name == STEP and self._is_doubted and max(falls.values()) < _LEAST:
            return self._in_step(most)
        of_peak = fall >= min(max(_WORTH, _SHARE * top.total), most)
        phase = top.name if of_peak else cut.name

        def size(scale: Changes, more: Changes) -> int:
            both = merged((scale, more)) if scale else more
            of_phase = (one.total for one in self.phases(both) if one.name == phase)
            return self.peak(both) if of_peak else next(of_phase, 0)

        gains = [size(scale, done) - size(scale, changes) for scale in self._scales]
        # Half and twice of what nobody knows: an interval that would say nothing.
        is_stated = max(gains) > 2 * min(gains)
        gains = gains[:1] if is_stated else gains
        low, high = (
            int(max(one, 0) * (1 + end * _WIDTH))
            for one, end in ((min(gains), -1), (max(gains), 1))
        )
        return Saving(low, high, phase, of_peak, self.batch if is_stated else "")

    @property
    def _is_doubted(self) -> bool:
        """True if what the passes before a step hold is partly assumed."""
        given = self._given
        return bool(self._open or given.notes.keys() - {"optimizer"}) or not given.checkpointing

    def _in_step(self, size: int) -> Saving:
        """What a step alone saves, whatever the passes before it hold: up to twice of it where the
        weights may be float32."""
        wide = self._given.weights_dtype is None and self.known.weights_dtype != "float32"
        high = int(size * (1 + _WIDTH)) * (2 if wide else 1)
        return Saving(int(size * (1 - _WIDTH)), high, STEP, False, "if no other phase is fuller")


def price(
    values: Mapping[str, Any], findings: Sequence[Finding], pricing: Pricing
) -> Priced | None:
    """The findings with their savings; None where the model's shape is not known. values: the
    script's settings, as JSON has them."""
    try:
        run = read_run(values, pricing)
        if run is None:
            return None
        return guessed(run, findings) if run.is_guess else _priced(run, findings)
    except SettingsError:
        return Priced(list(findings))


def guessed(run: Run, findings: Sequence[Finding], model: str = "") -> Priced:
    """The findings with what each saves by itself at rows and a length that are taken for usual:
    there is no peak to speak of. model: says that it is a stand-in."""
    said = f"{model}{run.batch}"
    found: list[Finding] = []
    for each in _worth_a_line(run, findings):
        if model and each.level is Level.HINT:
            found.append(each)
            continue
        saving = _special(run, each) or run.saving(run.settled(effect_of(each, run.known)))
        at = f"{model}{saving.at}" if saving is not None and saving.at else said
        found.append(each if saving is None else each._replace(saving=saving._replace(at=at)))
    return Priced(found)


def _worth_a_line(run: Run, findings: Sequence[Finding]) -> Iterator[Finding]:
    """Yield the findings but those that would save next to nothing."""
    for each in findings:
        names = (f"{name}={value}" for name, value in each.effect)
        least = next((_WORTH_IT[name] for name in names if name in _WORTH_IT), None)
        saving = _special(run, each) if least is not None else None
        if least is None or (saving is not None and saving.of_peak and saving.high > least):
            yield each


def _special(run: Run, finding: Finding) -> Saving | None:
    """The saving of an effect that depends on what nobody has seen, at what is usual."""
    effect = dict(finding.effect)
    if effect.get("vllm_sleep") is True:
        return run.slept_saving()
    if type(limit := effect.get("seq_len")) is int:
        return run.unbounded_saving(limit)
    if (apart := run.saved_apart(effect)) is not None:
        return apart
    padding = "none" if effect.get("packed") is True else str(effect.get("padding", ""))
    return run.usual_saving(padding) if padding else None


class Step(NamedTuple):
    """A fix among others. finding: what it saves after those before it. done: all changes."""

    finding: Finding
    done: Changes
    is_safe: bool


def _priced(run: Run, findings: Sequence[Finding]) -> Priced:
    """Each saving follows those before it. A hint that would raise the peak, or
    fill no holes, is left out."""
    alone = _alone(run, findings)
    found = {id(each): each for each, _, _ in alone}
    done: Changes = ()
    safe: Changes | None = None
    for each, step in _in_order(run, alone):
        found[id(each)] = step.finding
        if step.finding.saving is not None:
            done = step.done
            safe = done if step.is_safe else safe
    priced = [_at_usual(run, found[id(each)]) for each, _, _ in alone]
    return Priced([one for one in priced if not _is_vain(one)], _footprint(run, safe, done))


def _is_vain(finding: Finding) -> bool:
    """True of a step's temporaries where another phase is certainly fuller: nothing is assumed."""
    saving, optimizer = finding.saving, str(dict(finding.effect).get("optimizer"))
    return bool(saving and optimizer.endswith("_fused") and not (saving.of_peak or saving.at))


def steps(run: Run, findings: Sequence[Finding]) -> list[Step]:
    """Return the fixes that lower the run's memory, in the order in which they are priced."""
    ordered = _in_order(run, _alone(run, findings))
    return [step for _, step in ordered if step.finding.saving is not None]


def _alone(run: Run, findings: Sequence[Finding]) -> list[tuple[Finding, Changes, Saving | None]]:
    """Each finding with its changes and what they save by themselves."""
    alone: list[tuple[Finding, Changes, Saving | None]] = []
    for each in _worth_a_line(run, findings):
        effect = run.settled(effect_of(each, run.known))
        if each.level is Level.HINT and effect and run.peak(effect) > run.peak():
            continue
        alone.append((each, effect, run.saving(effect) if effect else None))
    return alone


def _in_order(
    run: Run, alone: Sequence[tuple[Finding, Changes, Saving | None]]
) -> Iterator[tuple[Finding, Step]]:
    """Yield what saves anything: safe fixes first, the largest first."""
    done: Changes = ()
    for each, effect, saving in sorted(alone, key=_place):
        if saving is None:
            continue
        after = run.saving(effect, done)
        if after is not None:
            done = merged((done, effect))
        yield each, Step(each._replace(saving=after), done, _is_safe(each))


def _at_usual(run: Run, finding: Finding) -> Finding:
    """The finding with what it saves beside the phases or in a usual batch, where that is more."""
    saving, special = finding.saving, _special(run, finding)
    if special is None or (saving is not None and saving.high >= special.high):
        return finding
    return finding._replace(saving=special)


def _place(one: tuple[Finding, Changes, Saving | None]) -> tuple[bool, bool, int]:
    finding, _, saving = one
    of_peak = saving is not None and saving.of_peak
    return not _is_safe(finding), not of_peak, -saving.high if saving is not None else 0


def _is_safe(finding: Finding) -> bool:
    return finding.fix is not None and finding.fix.applicability is Applicability.SAFE


def read_run(values: Mapping[str, Any], pricing: Pricing) -> Run | None:
    """The run of a script; None where its model's shape or a setting is not known."""
    try:
        settings = with_pricing(values, pricing)
        head = head_of(settings.trainer, settings.head, settings.labels)
        model = settings.model
        named = _named if isinstance(model, str) else find_architecture
        return Run(settings, named(model, *head))
    except (KeyError, ConfigError, SettingsError):
        return None


@lru_cache(maxsize=64)
def _named(model: str, head: str | None, labels: int) -> Architecture:
    return with_head(find_config(model), head, labels)


def check_pricing(pricing: Pricing) -> str:
    """Say which assumed model has no known shape; empty: none.

    Raises:
        SettingsError: a GPU or an assumption cannot be.
    """
    if pricing.gpu:
        find_gpu(pricing.gpu)
    model = with_pricing({"model": "gpt2"}, pricing).model
    try:
        find_config(str(model))
    except KeyError:
        return f"the shape of model {str(model)!r} is not known: prices are those of a usual model"
    return ""


def _harmonic(rows: int) -> float:
    return sum(1 / row for row in range(1, min(rows, _ROWS) + 1))


def merged(effects: Iterable[Changes]) -> Changes:
    """Changes together; of two values for one setting the last counts."""
    changes: dict[str, Any] = {}
    for effect in effects:
        changes.update(effect)
    return tuple(sorted(changes.items()))


def _scales(
    names: Sequence[str], known: Settings, architecture: Architecture
) -> tuple[Changes, ...]:
    """Half and twice of the lengths and batches that are assumed."""
    if not names:
        return ()
    half = {name: max(getattr(known, name) // 2, 1) for name in names}
    twice = {name: 2 * getattr(known, name) for name in names}
    limit = architecture.max_positions
    if "seq_len" in twice and 0 < limit < twice["seq_len"]:
        twice["seq_len"] = max(limit, known.seq_len or 1)
    return tuple(tuple(sorted(each.items())) for each in (half, twice))


def _open(settings: Settings, known: Settings) -> list[str]:
    """The lengths and batches that nobody gave and no library decides."""
    return [
        name
        for name in _MEASURES
        if getattr(settings, name) is None and getattr(known, name) and not _is_default(name, known)
    ]


def _is_default(name: str, known: Settings) -> bool:
    """True if what is assumed is what the library does where nobody says anything."""
    trainer = known.trainer or ""
    if kind_of(trainer).generates:
        return name in ("seq_len", "completion_len")
    return name == "seq_len" and trainer.startswith("trl.")


def _footprint(run: Run, safe: Changes | None, every: Changes) -> Footprint:
    """The peak as it is, with the safe fixes that save something, and with everything."""
    top = max(run.phases(), key=lambda phase: phase.total)
    low, high = run.peaks()
    more = every if every != (safe or ()) else None
    return Footprint(
        peak=top.total,
        low=low,
        high=high,
        phase=top.name,
        safe=None if safe is None else run.peak(safe),
        every=None if more is None else run.peak(more),
        safe_range=None if safe is None else run.peaks(safe),
        every_range=None if more is None else run.peaks(more),
        gpu=run.gpu.name if run.gpu else "",
        room=run.room,
        assumed=run.assumed,
        phases=tuple((each.name, each.total) for each in run.phases()),
    )


def effect_of(finding: Finding, known: Settings) -> Changes:
    """The settings that change once the finding is mended; empty: nothing that has a price.

    known: the settings of the run, complete.
    """
    changes: dict[str, Any] = dict(_in_settings(finding.effect, known))
    if changes.get("loss") == "no_logits":
        changes["loss"] = without_logits(known)
        changes["head_in_tiles"] = changes["loss"] == "liger" or known.head_in_tiles
    if changes.get("checkpointing") == "non_reentrant":
        reentrant = known.checkpointing == "reentrant"
        changes["checkpointing"] = "full" if reentrant else known.checkpointing
    if changes.get("eval_batch") == "micro_batch":
        changes["eval_batch"] = known.micro_batch
    if changes.get("method") == "qlora" and (known.method != "lora" or known.quantization):
        return ()
    changed = replace(known, **changes) if changes else known
    return tuple(
        (key, getattr(changed, key))
        for key in sorted(changes)
        if getattr(known, key) != getattr(changed, key)
    )


def _in_settings(
    effect: Iterable[tuple[str, object]], known: Settings
) -> Iterator[tuple[str, object]]:
    """Yield an effect in the memory model's words: a run's record has some of its own."""
    for name, value in effect:
        if name == "quantization" and isinstance(value, str):
            yield "method", "qlora"
            yield name, {"bits": 8 if value == "int8" else 4, "type": value}
        elif name == "nested_quantization" and known.quantization is not None:
            yield "quantization", known.quantization._replace(double_quant=True)
        elif name == "quantized_compute" and known.quantization is not None:
            yield "quantization", known.quantization._replace(compute_dtype=value)
        elif name == "modules_to_save" and known.lora is not None:
            yield "lora", known.lora._replace(modules_to_save=())
        elif name == "reentrant":
            yield "checkpointing", "non_reentrant"
        elif name == "in_backward":
            plain = (known.optimizer or "").removesuffix(IN_BACKWARD)
            yield "optimizer", plain + IN_BACKWARD * bool(value)
        elif (setting := _SETTINGS.get(name, name)) in Settings.__annotations__:
            yield setting, value


def without_logits(known: Settings) -> str | None:
    """The loss that never has all logits: TRL's tiles in its trainers, else gradients by pieces."""
    if known.loss != "full_logits":
        return known.loss
    return "chunked" if kind_of(known.trainer).tiled else "liger"
