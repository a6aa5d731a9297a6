"""What makes a run fit: first what changes nothing that is learned, then numerics, then the method.

Candidates are the fixes of what the rules found in the script, and changes that are made by hand:
smaller micro-batches that are accumulated, an optimizer of 8 bits, adapters, a quantized base. In
each tier the set with the least effort counts: time of a step, a person's work, a doubt. Each set
is one run of the memory model, and the high end of its interval must fit.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from typing import Any

from memlint.memory.checkpoints import architecture_of
from memlint.memory.prices import Changes, Run, effect_of, merged, without_logits
from memlint.memory.settings import Quantization, Settings, SettingsError
from memlint.memory.trades import SMALLER, trade_of
from memlint.memory.trainer_kinds import kind_of
from memlint.rule.findings import Applicability, Finding
from memlint.rule.savings import ends
from memlint.source.record import NamedTuple

_MOST = 11  # candidates that are combined: some 1,000 sets
_TRIED = 24  # of the largest sets of a tier, before all of it
_LONGEST = 1 << 20  # tokens
_LARGEST = 4096  # rows

# Time that a change costs, as a share of a step. Of the literature and the libraries' own words
# (a recomputed forward pass is a third); the order counts, not the digits.
_TIME: dict[str, float] = {
    "attention": -0.1,
    "shared_prompt": -0.1,
    "weights_dtype": -0.05,
    "compute_dtype": -0.3,
    "reference_model": 0.0,
    "loss": 0.02,
    "optimizer": 0.02,
    "method": 0.05,
    "quantization": 0.25,
    "checkpointing": 0.33,
    "offload": 0.4,  # unrecomputed activations cross the bus twice
    "streamed": 0.7,  # the base crosses it twice; hidden by computing from some length on
    "gradient_accumulation": 0.1,  # smaller kernels
}
_BY_HAND, _UNSAFE = 0.35, 0.1  # what a person's work, and a doubt, are worth in time
# What a change touches beyond memory and time: everything else leaves what is learned alone.
_TIERS = ("leaves what is learned alone", "changes numerics", "changes the method")
_NUMERICS = ("optimizer", "weights_dtype", "compute_dtype", "autocast", "packed")
_STEPS = "gradient_accumulation"
_METHOD = ("method", "quantization", "lora", "seq_len", "completion_len", "prompt_len")
_NF4: Changes = (("method", "qlora"), ("quantization", Quantization(bits=4, type="nf4")))


class Measure(NamedTuple):
    """A change of the run. codes: of the findings whose fix it is; empty: it is made by hand.

    fixes: (code, message) of these fixes, as the findings have them.
    """

    message: str
    changes: Changes
    kind: Applicability
    codes: tuple[str, ...] = ()
    fixes: tuple[tuple[str, str], ...] = ()

    @property
    def time(self) -> float:
        """Its cost in time, as a share of a step."""
        return sum(_TIME.get(key, 0.0) for key, _ in self.changes)

    @property
    def tier(self) -> int:
        """0: what is learned stays; 1: numerics change; 2: the method does."""
        keys = {key for key, _ in self.changes}
        return 2 if not keys.isdisjoint(_METHOD) else 1 if not keys.isdisjoint(_NUMERICS) else 0

    @property
    def effort(self) -> float:
        """Its time with a person's work, and with a doubt where the fix is not safe."""
        by_hand = self.kind is Applicability.DISPLAY
        unsafe = self.kind is Applicability.UNSAFE
        return self.time + _BY_HAND * by_hand + _UNSAFE * unsafe

    @property
    def trade(self) -> str:
        """What it costs besides memory and a person's work, with the page on it; or nothing."""
        trade = trade_of(self.changes)
        return f"{trade.said} (`memlint rule {trade.page}`)" if trade is not None else ""

    def to_json(self) -> dict[str, Any]:
        return {
            "codes": list(self.codes),
            "message": self.message,
            "applicability": self.kind.value,
            "changes": {key: _plain(value) for key, value in self.changes},
            "time": round(self.time, 2),
            "tier": _TIERS[self.tier],
            "trade": self.trade,
        }


class Fitted(NamedTuple):
    """The set that was chosen. before, after: bytes allocated at the peak, of ``room``.

    micro_batch, seq_len: the largest that fit with the set, each with the other as it is; 0: none.
    on_host: bytes that wait in the host's memory, of ``host``, which 0 leaves open.
    """

    chosen: tuple[Measure, ...]
    before: int
    after: int
    room: int
    gpu: str
    micro_batch: int
    seq_len: int
    on_host: int = 0
    host: int = 0

    @property
    def fits(self) -> bool:
        return ends(self.after)[1] <= self.room and not 0 < self.host < self.on_host

    @property
    def tier(self) -> str:
        """What the set does to what is learned."""
        return _TIERS[max((each.tier for each in self.chosen), default=0)]

    @property
    def applied(self) -> tuple[Measure, ...]:
        """Those that ``memlint fix`` makes."""
        return tuple(each for each in self.chosen if each.kind is not Applicability.DISPLAY)

    @property
    def by_hand(self) -> tuple[Measure, ...]:
        return tuple(each for each in self.chosen if each.kind is Applicability.DISPLAY)

    def to_json(self) -> dict[str, Any]:
        return {
            "gpu": self.gpu,
            "fits": self.fits,
            "before": self.before,
            "after": self.after,
            "room": self.room,
            "fixes": [each.to_json() for each in self.applied],
            "by_hand": [each.to_json() for each in self.by_hand],
            "micro_batch": self.micro_batch,
            "seq_len": self.seq_len,
            "tier": self.tier,
            "on_host": self.on_host,
        }


def run_of(settings: Settings) -> Run:
    """The run of settings, its model's shape found as for an estimate.

    Raises:
        SettingsError: the model or a setting is not known.
    """
    return Run(settings, architecture_of(settings))


def fit(run: Run, findings: Iterable[Finding], host: int = 0) -> Fitted:
    """The set of changes with which the run fits its GPU; all that help where none does. host:
    bytes of the host's memory that may be taken; 0: any."""
    measures = candidates(run, findings)
    if host:
        measures = tuple(one for one in measures if run.on_host(one.changes) <= host)
    chosen = next((one for one in _sets(run, measures, host) if _fits(run, one, host)), None)
    if chosen is None:
        # The lowest peak, and the cheapest set of those.
        chosen = min(_sets(run, measures, host), key=lambda each: (_peak(run, each), _cost(each)))
    changes = merged(each.changes for each in chosen)
    return Fitted(
        chosen,
        run.peak(),
        run.peak(changes),
        run.room,
        run.gpu.name if run.gpu else "",
        _largest(run, changes, "micro_batch", _LARGEST),
        _largest(run, changes, length_of(run.known), run.longest or _LONGEST),
        run.on_host(changes),
        host,
    )


def length_of(known: Settings) -> str:
    """The setting that is the length of the run's sequences."""
    return "completion_len" if kind_of(known.trainer).generates else "seq_len"


def candidates(run: Run, findings: Iterable[Finding]) -> tuple[Measure, ...]:
    """The changes that may help, those of the same settings together, by the script's fixes first.

    A change that lowers no phase of the run, neither alone nor after all others, is left out.
    """
    found: dict[Changes, Measure] = {}
    batches = {changes for _, changes in _smaller_batches(run.known)}
    for finding in findings:
        changes = run.settled(effect_of(finding, run.known))
        one = _measure(finding, changes)
        written = changes in batches and one.kind is not Applicability.DISPLAY
        if not changes or (finding.code == SMALLER and not written):
            continue
        known = found.get(changes)
        found[changes] = one if known is None else _joined(known, one)
    keys = {key for changes in found for key, _ in changes}
    for message, changes in _by_hand(run.known):
        if changes[0][0] not in keys or changes[0][0] == _STEPS:
            found.setdefault(changes, Measure(message, changes, Applicability.DISPLAY))
    return tuple(each for each in found.values() if _helps(run, each, found.values()))[:_MOST]


def measure_of_batch(findings: Iterable[Finding], rows: int, steps: int) -> Measure | None:
    """The fix that makes micro-batches of so many rows, and so many of them a step; None without
    one."""
    wanted = {"micro_batch": rows, _STEPS: steps}
    for finding in findings:
        if finding.code == SMALLER and dict(finding.effect) == wanted:
            return _measure(finding, tuple(wanted.items()))
    return None


def _measure(finding: Finding, changes: Changes) -> Measure:
    made = finding.fix
    if made is None:
        return Measure(finding.message, changes, Applicability.DISPLAY, (finding.code,))
    kind = made.applicability if made.edits else Applicability.DISPLAY
    codes = () if finding.code == SMALLER else (finding.code,)
    return Measure(made.message, changes, kind, codes, ((finding.code, made.message),))


def _joined(one: Measure, other: Measure) -> Measure:
    """Two fixes with the same effect: both are made, and the safer of them speaks."""
    order = (Applicability.SAFE, Applicability.UNSAFE, Applicability.DISPLAY)
    best = min(one, other, key=lambda each: order.index(each.kind))
    same = [each for each in (one, other) if each.kind is best.kind]
    return best._replace(
        codes=tuple(dict.fromkeys(code for each in same for code in each.codes)),
        fixes=tuple(dict.fromkeys(pair for each in same for pair in each.fixes)),
    )


def smaller(rows: int, steps: int) -> Iterator[tuple[int, int]]:
    """Yield fewer rows at once, and the accumulation with which a batch has as many as before."""
    for fewer in sorted({rows // 2, rows // 4, rows // 8, 1} - {0, rows}, reverse=True):
        if rows % fewer == 0:
            yield fewer, steps * rows // fewer


def _smaller_batches(known: Settings) -> Iterator[tuple[str, Changes]]:
    if kind_of(known.trainer).generates:
        return
    for fewer, more in smaller(known.micro_batch or 1, known.gradient_accumulation or 1):
        yield (
            f"Use micro-batches of {fewer} and accumulate {more}: the same batch",
            ((_STEPS, more), ("micro_batch", fewer)),
        )


def _by_hand(known: Settings) -> Iterator[tuple[str, Changes]]:
    """What a person may do where the rules have nothing left."""
    yield from _smaller_batches(known)
    if known.checkpointing == "none":
        yield "Checkpoint activations", (("checkpointing", "full"),)
    if known.loss == "full_logits":
        yield (
            "Compute the loss without the logits: `memlint_runtime.fuse_causal_lm_loss(model)`",
            (("loss", without_logits(known)),),
        )
    if known.offload == "none":
        yield "Offload activations to the host", (("offload", "activations"),)
    if known.method == "full":
        if "adamw_torch" in (known.optimizer or ""):
            yield "Keep 8-bit optimizer states (`optim`)", (("optimizer", "adamw_8bit"),)
        yield "Train adapters (LoRA) instead of all weights", (("method", "lora"),)
        yield "Train adapters over a base of 4 bits (QLoRA)", _NF4
    if known.method != "full" and not known.streamed:
        yield (
            "Stream the frozen weights: `memlint_runtime.stream_frozen_weights(model)`",
            (("streamed", True),),
        )
    if known.method == "lora":
        yield "Quantize the frozen base (4 bits, nf4)", _NF4


def _helps(run: Run, measure: Measure, others: Iterable[Measure]) -> bool:
    if run.saving(measure.changes) is not None:
        return True
    rest = [each.changes for each in others if each is not measure]
    changes = merged(rest)
    return run.peak(changes) > run.peak(merged((*rest, measure.changes)))


def _sets(run: Run, measures: Sequence[Measure], host: int) -> Iterator[tuple[Measure, ...]]:
    """All sets in the order of preference, tier by tier; two values for one setting are in none.

    A tier in which all that helps together does not fit has none.
    """
    for tier in range(len(_TIERS)):
        allowed = [each for each in measures if each.tier <= tier]
        every = [
            each
            for size in range(len(allowed) + 1)
            for each in combinations(allowed, size)
            if _agree(each)
        ]
        largest = sorted(every, key=len)[-_TRIED:]
        if any(_fits(run, each, host) for each in largest) or tier == len(_TIERS) - 1:
            yield from sorted(every, key=_cost)


def _cost(measures: Sequence[Measure]) -> tuple[float, int]:
    return round(sum(each.effort for each in measures), 3), len(measures)


def _fits(run: Run, measures: Sequence[Measure], host: int) -> bool:
    fits = ends(_peak(run, measures))[1] <= run.room
    return fits and not 0 < host < run.on_host(merged(each.changes for each in measures))


def _agree(measures: Sequence[Measure]) -> bool:
    values: dict[str, Any] = {}
    return all(
        values.setdefault(key, value) == value for each in measures for key, value in each.changes
    )


def _peak(run: Run, measures: Sequence[Measure]) -> int:
    return run.peak(merged(each.changes for each in measures))


def _largest(run: Run, changes: Changes, name: str, limit: int) -> int:
    """The largest value of a setting with which the run fits; 0 where 1 does not."""

    def fits(value: int) -> bool:
        try:
            return ends(run.peak(merged((changes, ((name, value),)))))[1] <= run.room
        except SettingsError:
            return False

    return bisect_left(range(1, limit + 1), True, key=lambda value: not fits(value))


def _plain(value: Any) -> Any:
    if isinstance(value, Quantization):
        return {key: each for key, each in vars(value).items() if each is not None}
    return value
