"""What a finding costs and what a run needs, in bytes: what reports show and caches keep."""

from memlint.source.record import NamedTuple

BELOW, ABOVE = 0.065, 0.05  # of an estimated peak: nine of ten measured ones lie between
MORE = 50 * 2**20  # bytes that no model counts


def ends(size: int) -> tuple[int, int]:
    """Return the least and the most that a peak of ``size`` estimated bytes may be."""
    return int(size * (1 - BELOW)), int(size * (1 + ABOVE)) + MORE


def verdict(low: int, high: int, room: int) -> str:
    """Say whether a peak between two ends is in so many bytes."""
    return "fits" if high <= room else "is tight on" if low <= room else "does not fit"


class Pricing(NamedTuple):
    """What prices are computed for. gpu: a name, or empty; assumptions: ``seq_len=4096``."""

    gpu: str = ""
    assumptions: tuple[str, ...] = ()


class Saving(NamedTuple):
    """Bytes that a fix saves, by two runs of the memory model.

    low, high: an interval, wide where settings are assumed. phase: where they are saved.
    of_peak: whether the run's peak falls by them; else ``phase`` is not the fullest phase, and
    they count once the fullest one has been lowered. at: where they are those of a stated batch, or
    of another run of the file: a clause that says so. Those are in no sum.
    """

    low: int
    high: int
    phase: str
    of_peak: bool = True
    at: str = ""


class Footprint(NamedTuple):
    """The peak of a script's run, in bytes that torch allocates, as it is and with fixes.

    low, high: the peak's interval. phase: the fullest. safe, every: the peak with all safe fixes,
    and with everything that is priced; None where nothing of it is priced. safe_range, every_range:
    their intervals, as ``low`` and ``high`` are the peak's. gpu: its name and its
    bytes, where one is named. room: bytes that a run may allocate on it. assumed: settings that
    nobody gave, as ``seq_len=2048``. phases: the name and the bytes of each.
    """

    peak: int
    low: int
    high: int
    phase: str
    safe: int | None = None
    every: int | None = None
    gpu: str = ""
    room: int = 0
    assumed: tuple[str, ...] = ()
    safe_range: tuple[int, int] | None = None
    every_range: tuple[int, int] | None = None
    phases: tuple[tuple[str, int], ...] = ()

    @property
    def fits(self) -> bool | None:
        """True if the run fits the GPU at the high end of its interval; None if none is named."""
        return ends(self.peak)[1] <= self.room if self.gpu else None

    @property
    def fits_fixed(self) -> bool | None:
        """True if it fits once everything that is priced is fixed; None where no GPU is named."""
        found = [peak for peak in (self.peak, self.safe, self.every) if peak is not None]
        return ends(min(found))[1] <= self.room if self.gpu else None
