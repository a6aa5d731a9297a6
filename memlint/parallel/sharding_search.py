"""Which way of sharing a run over GPUs fits, and moves least.

For each strategy: the micro-batch with which a step has as many rows as before, fits, and moves
least. Candidates are ranked by memory first: the high end of a peak's interval must fit. Those that
keep all on the GPUs come before those that put something on the host, the run as it is before the
run with changes that leave alone what is learned (checkpointing, a loss without logits); then
what a step moves counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

from memlint.memory.assume import assume
from memlint.memory.by_gpus import timeline_with
from memlint.memory.checkpoints import architecture_of
from memlint.memory.fit import Measure, candidates
from memlint.memory.gpus import Gpu, find_gpu
from memlint.memory.prices import Run, merged
from memlint.memory.settings import Settings, SettingsError
from memlint.memory.trainer_kinds import kind_of
from memlint.parallel.strategies import Strategy, strategies_of
from memlint.parallel.traffic import Traffic, traffic_of
from memlint.rule.findings import Finding
from memlint.rule.savings import ends
from memlint.source.record import Record

_MOST_ROWS = 64  # of a micro-batch that is tried
_FULL = 0.9  # of the room: what the allocator needs beside tensors is a tenth
_ORDER = {"fits": 0, "just": 1, "does not fit": 2, "host too small": 3}
_NOT_HERE = {"gradient_accumulation", "micro_batch", "offload", "streamed"}


class Candidate(Record):
    """A run under a strategy. micro_batch: rows at once on each GPU; accumulation: how many of
    those are a step. peak: bytes allocated on one GPU. seconds: of moving, see ``Traffic``.
    verdict: ``fits``, ``just`` (by the low end of the interval only), ``does not fit`` or ``host
    too small``."""

    strategy: Strategy
    micro_batch: int
    accumulation: int
    peak: int
    traffic: Traffic
    seconds: float
    verdict: str

    def to_json(self) -> dict[str, Any]:
        low, high = ends(self.peak)
        return {
            **self.strategy._asdict(),
            "micro_batch": self.micro_batch,
            "gradient_accumulation": self.accumulation,
            "allocated": {"low": low, "estimate": self.peak, "high": high},
            "moved": self.traffic._asdict(),
            "seconds": round(self.seconds, 4),
            "verdict": self.verdict,
        }


class Shared(Record):
    """A run shared over GPUs. known: all of its settings, as it stands. rows: of a step, on all
    GPUs. fixes: changes that every candidate has. left_out: sentences on strategies that the run
    cannot take. chosen: None where nothing fits. parameters: of the model; hidden: its width."""

    known: Settings
    gpu: Gpu
    gpus: int
    rows: int
    candidates: tuple[Candidate, ...]
    chosen: Candidate | None
    fixes: tuple[Measure, ...]
    left_out: tuple[str, ...]
    parameters: int
    hidden: int

    @property
    def fits(self) -> bool:
        """True if some candidate fits, if only just."""
        return self.chosen is not None

    def to_json(self) -> dict[str, Any]:
        return {
            "gpu": self.gpu.to_json(),
            "gpus": self.gpus,
            "fits": self.fits,
            "rows_a_step": self.rows,
            "candidates": [each.to_json() for each in self.candidates],
            "chosen": self.chosen.to_json() if self.chosen is not None else None,
            "fixes": [each.to_json() for each in self.fixes],
            "left_out": list(self.left_out),
        }


def share(settings: Settings, findings: Iterable[Finding], gpus: int, host: int = 0) -> Shared:
    """Find how so many GPUs of the settings' kind share a run. findings: of its script. host: bytes
    of a machine's memory that may be taken; 0: any.

    Raises:
        SettingsError: a setting, the model or the GPU is not known.
    """
    return _Search(settings, gpus, host).result(tuple(findings))


def _unsharded(settings: Settings) -> Settings:
    """The settings without what DeepSpeed decides where it shards the run today: it casts weights,
    in place of the trainer's mixed precision."""
    if not (settings.sharding or "").startswith("zero") or settings.autocast is not False:
        return settings
    return settings._replace(weights_dtype=None, autocast=True)


class _Search:
    def __init__(self, settings: Settings, gpus: int, host: int) -> None:
        self._host = host
        self._settings = settings = _unsharded(settings)
        self._gpus = gpus
        self._gpu = find_gpu(settings.gpu or "")
        self._architecture = architecture_of(settings)
        self._known = assume(settings, self._architecture).settings
        self._strategies, self._left_out = strategies_of(self._known, self._architecture, gpus)

    @cached_property
    def _rows(self) -> int:
        """Rows of a step on all GPUs: as launched, else as the run starts on this many."""
        known = self._known
        each = (known.micro_batch or 1) * (known.gradient_accumulation or 1)
        return each * (self._settings.world_size or self._gpus)

    def result(self, findings: Sequence[Finding]) -> Shared:
        """The candidates, and the one that is best."""
        levels = self._changes(findings)
        tried: list[list[Candidate]] = []
        for on_host in (False, True):
            for level, fixes in enumerate(levels):
                if level == len(tried):
                    tried.append(list(self._candidates(fixes)))
                chosen = self._best(
                    one for one in tried[level] if bool(one.strategy.host) == on_host
                )
                if chosen is not None and chosen.verdict == "fits":
                    return self._shared(*self._needed(chosen, tried[level], fixes))
        # Nothing does: with all that helps, what may.
        return self._shared(self._best(tried[-1]), tried[-1], levels[-1])

    def _shared(
        self, chosen: Candidate | None, tried: Sequence[Candidate], fixes: tuple[Measure, ...]
    ) -> Shared:
        return Shared(
            known=self._known,
            gpu=self._gpu,
            gpus=self._gpus,
            rows=self._rows,
            candidates=tuple(tried),
            chosen=chosen if chosen is not None and _ORDER[chosen.verdict] < 2 else None,
            fixes=fixes,
            left_out=self._left_out,
            parameters=self._architecture.parameters,
            hidden=self._architecture.hidden,
        )

    def _needed(
        self, chosen: Candidate, tried: list[Candidate], fixes: tuple[Measure, ...]
    ) -> tuple[Candidate, list[Candidate], tuple[Measure, ...]]:
        """The choice without the changes that it fits without."""
        for each in fixes:
            fewer = tuple(other for other in fixes if other is not each)
            again = list(self._candidates(fewer))
            same = [one for one in again if one.strategy == chosen.strategy]
            if same and same[0].verdict == "fits":
                return self._needed(same[0], again, fewer)
        return chosen, tried, fixes

    def _changes(self, findings: Sequence[Finding]) -> list[tuple[Measure, ...]]:
        """No change, then ever more of those that leave alone what is learned, the cheap first."""
        shared = self._strategies[-1].changes(self._known, self._gpus, self._architecture.hidden)
        plain = self._settings._replace(**{**shared, "sharding_options": {}})
        found = candidates(Run(plain, self._architecture), findings)
        useful = [
            each
            for each in found
            if not each.tier and _NOT_HERE.isdisjoint(key for key, _ in each.changes)
        ]
        useful.sort(key=lambda each: each.effort)
        return [tuple(useful[:count]) for count in range(len(useful) + 1)]

    def _candidates(self, fixes: Sequence[Measure]) -> Iterator[Candidate]:
        """Yield each strategy with the micro-batch that suits it."""
        extra = dict(merged(each.changes for each in fixes))
        for strategy in self._strategies:
            best: Candidate | None = None
            for micro, steps in self._batches(strategy):
                found = self._candidate(strategy, micro, steps, extra)
                if found is not None:
                    best = found if best is None else min(best, found, key=self._cost)
            if best is not None:
                yield best

    def _batches(self, strategy: Strategy) -> Iterator[tuple[int, int]]:
        """Yield micro-batches with their accumulation.

        More rows may need less: without accumulation no gradients wait."""
        known = self._known
        if kind_of(known.trainer).generates:
            yield known.micro_batch or 1, known.gradient_accumulation or 1
            return
        each = -(-self._rows // (self._gpus // strategy.contexts))
        for micro in range(1, min(each, _MOST_ROWS) + 1):
            if each % micro == 0:
                yield micro, each // micro

    def _candidate(
        self, strategy: Strategy, micro: int, steps: int, extra: dict[str, Any]
    ) -> Candidate | None:
        decided = strategy.changes(self._known, self._gpus, self._architecture.hidden)
        batch = {"micro_batch": micro, "gradient_accumulation": steps}
        try:
            timeline = timeline_with(
                self._settings, self._architecture, **{**extra, **decided, **batch}
            )
            peak = max(phase.total for phase in timeline.phases())
        except SettingsError:
            return None
        traffic = traffic_of(timeline, strategy)
        low, high = ends(peak)
        room = self._gpu.room
        word = "fits" if high <= room else "just" if low <= room else "does not fit"
        word = "host too small" if 0 < self._host < traffic.held else word
        seconds = traffic.seconds(self._gpu, self._gpus)
        return Candidate(strategy, micro, steps, peak, traffic, seconds, word)

    def _cost(self, one: Candidate) -> tuple[int, float, float]:
        """By memory, by time, by how near the micro-batch is to the run's own."""
        now = self._known.micro_batch or 1
        apart = max(one.micro_batch / now, now / one.micro_batch)
        fits = _ORDER[one.verdict] < 2
        return _ORDER[one.verdict], round(one.seconds, 4) if fits else one.peak, apart

    def _best(self, tried: Iterable[Candidate]) -> Candidate | None:
        """The candidate that fits and moves least, of equals the first with room to spare; where
        none fits the smallest."""

        def cost(one: Candidate) -> tuple[int, float, bool]:
            order = _ORDER[one.verdict]
            narrow = ends(one.peak)[1] > _FULL * self._gpu.room
            return order, round(one.seconds, 3) if order < 2 else one.peak, narrow

        return min(tried, key=cost, default=None)
