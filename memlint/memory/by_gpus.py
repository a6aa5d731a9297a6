"""The peak by how many GPUs share a run, where nobody says how many, or how they share it."""

from typing import Any

from memlint.memory.architecture import Architecture
from memlint.memory.assume import Known, assume
from memlint.memory.gpus import Gpu
from memlint.memory.settings import Settings, SettingsError, with_assumption
from memlint.memory.timeline import Timeline
from memlint.memory.training_run import TrainingRun
from memlint.rule.savings import ends, verdict
from memlint.source.record import Record

_COUNTS = (1, 2, 4, 8)
# What a strategy that is in doubt may be, by the beginning of the one that was taken.
_FAMILIES = {"zero": ("zero1", "zero2", "zero3"), "fsdp": ("fsdp", "fsdp2")}
_ANY = ("ddp", "zero2", "zero3", "fsdp2")


class OnGpus(Record):
    """A run on so many GPUs. peak: bytes allocated on one of them. verdict: empty without a GPU."""

    world_size: int
    sharding: str
    peak: int
    verdict: str = ""

    def to_json(self) -> dict[str, Any]:
        low, high = ends(self.peak)
        allocated = {"low": low, "estimate": self.peak, "high": high}
        kept = {"world_size": self.world_size, "sharding": self.sharding, "allocated": allocated}
        return kept | ({"verdict": self.verdict} if self.verdict else {})


def timeline_with(settings: Settings, architecture: Architecture, **changes: Any) -> Timeline:
    """Return the run with other values for some settings.

    Raises:
        SettingsError: a value cannot be.
    """
    for name, value in changes.items():
        settings = with_assumption(settings, name, value)
    known = assume(settings, architecture).settings
    return Timeline(TrainingRun(known, architecture))


def peak_with(settings: Settings, architecture: Architecture, **changes: Any) -> int | None:
    """Return the bytes allocated with other values for some settings; None where they cannot be."""
    try:
        phases = timeline_with(settings, architecture, **changes).phases()
    except SettingsError:
        return None
    return max(phase.total for phase in phases)


def on_gpus(
    given: Settings, architecture: Architecture, known: Known, gpu: Gpu | None
) -> tuple[OnGpus, ...]:
    """Return the run on 1, 2, 4 and 8 GPUs, by strategy if that is open; empty if both are set."""
    open_count = any(one.name == "world_size" for one in known.assumptions)
    doubted = "sharding" in given.notes
    if not (open_count or doubted):
        return ()
    taken = known.settings.sharding or "ddp"
    strategies = _FAMILIES.get(taken[:4], _ANY) if doubted else (taken,)
    counts = _COUNTS if open_count else (known.settings.world_size or 1,)
    rows = []
    for sharding in strategies:
        for count in counts:
            peak = peak_with(given, architecture, sharding=sharding, world_size=count)
            if peak is not None:
                said = verdict(*ends(peak), gpu.room) if gpu is not None else ""
                rows.append(OnGpus(count, sharding, peak, said.split(" on")[0].removeprefix("is ")))
    return tuple(rows)
