"""Which tensor could not be allocated: ``explain(log, settings)``.

Each tensor of the run gives the probability that torch shows exactly this size: all of it where
the size is fixed, spread over lengths where it grows with the tokens. That, times how often its
kind runs out of memory, times what the traceback says, is a candidate's weight; the weights of
all, divided by their sum, are the shares.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from memlint.memory.checkpoints import find_architecture, find_config
from memlint.memory.lifetimes import format_size
from memlint.memory.oom_log import DATA, Evidence, Log, Message, read_frames, read_log
from memlint.memory.oom_tensors import FIXED, LINEAR, SQUARE, Sized, Table, likelihood, table_of
from memlint.memory.settings import Settings, SettingsError, dtype_width, read_settings, replace
from memlint.rule.remedies import fixes_against
from memlint.source.record import Record

# How often each kind is what fails, before anything is known: logits and their copies and the
# attention's scores are the largest tensors of most runs, and backward needs little more.
KINDS: Mapping[str, float] = DATA["kinds"]
# Shapes taken where the log names no model: the families that are fine-tuned most.
_USUAL: tuple[str, ...] = tuple(DATA["usual"])
_LENGTHS = (128, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 10240, 12288,
            16384, 20480, 24576, 32768, 65536, 131072)  # fmt: skip
_ROWS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64)
_ROW_SHARES = {
    rows: (rows * sum(1 / other for other in _ROWS) * len(_ROWS)) ** -0.5 for rows in _ROWS
}
_NATS = math.log(2**10)  # over which a size of unknown origin is spread
_NEAR = 0.3  # of a fixed size that fits with added tokens or padding
_TOO_LONG = 0.15  # of a length beyond what the model was made for
_CLIMB = ("weight_gradient", "optimizer_state", "optimizer_temporary")


class Candidate(Record):
    """A tensor that can have the size.

    bytes: what it has at the numbers of ``arithmetic``. share: of all candidates' weight, 0 to 1.
    """

    kind: str
    tensor: str
    bytes: int
    arithmetic: str
    phase: str
    share: float
    fixes: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        values = {name: getattr(self, name) for name in self._fields}
        return {**values, "share": round(self.share, 4), "fixes": list(self.fixes)}


class Explanation(Record):
    """What a log's first message is about. settings: what was known of the run, or None."""

    message: Message
    messages: tuple[Message, ...]
    candidates: tuple[Candidate, ...]
    evidence: Evidence
    models: tuple[str, ...]
    settings: Settings | None

    @property
    def likely(self) -> tuple[Candidate, ...]:
        """The tensors that are worth a look; all where none is."""
        named = (one for one in self.candidates if one.share >= 0.01 and one.kind != "other")
        return tuple(named) or self.candidates

    def to_json(self) -> dict[str, Any]:
        return {
            "candidates": [candidate.to_json() for candidate in self.candidates],
            "message": self.message.to_json(),
            "messages": [message.to_json() for message in self.messages],
            "frame": self.evidence.frame,
            "models": list(self.models),
        }


class OomError(ValueError):
    """The log holds no message with a size."""


def explain(text: str, settings: Settings | Mapping[str, Any] | None = None) -> Explanation:
    """The likeliest tensors, first the likeliest.

    Raises:
        OomError: no out-of-memory message with a size in the log.
        SettingsError: the settings' model is not known.
    """
    log = read_log(text)
    if not log.messages:
        raise OomError(_missing(text))
    known = read_settings(settings) if isinstance(settings, Mapping) else settings
    message, evidence = log.messages[0], read_frames(log.frames)
    runs = _runs_of(log, known)
    scores: dict[str, float] = {}
    best: dict[str, _Scored] = {}
    for run in runs:
        for scored in _scored(table_of(run), message, evidence):
            kind, score = scored.item.kind, scored.score / len(runs)
            scores[kind] = scores.get(kind, 0.0) + score
            best[kind] = max(best.get(kind, scored), scored, key=lambda one: one.score)
    _complete(scores, message, evidence)
    total = sum(scores.values())
    candidates: list[Candidate] = []
    for kind, score in sorted(scores.items(), key=lambda pair: -pair[1]):
        if score / total >= 0.002 or len(candidates) < 3:
            fixes = fixes_against(kind, known, DATA["remedies"])
            shown = best[kind].shown(len(runs) > 1) if kind in best else None
            none = "no tensor of this kind has this size by the settings known"
            unnamed = ("unknown", message.shown, none, evidence.phase or "unknown")
            candidates.append(Candidate(kind, *(shown or unnamed), score / total, fixes))
    models = tuple(_name_of(run) for run in runs) if len(runs) < len(_USUAL) else ()
    return Explanation(message, log.messages, tuple(candidates), evidence, models, known)


def _missing(text: str) -> str:
    if "out of memory" not in text.lower():
        return (
            "the log holds no message such as torch's 'CUDA out of memory. Tried to allocate ...'"
        )
    more = "(torch writes 'Tried to allocate ...'): give the lines of torch's own message"
    return f"the log reports an out-of-memory error without a size {more}"


def _complete(scores: dict[str, float], message: Message, evidence: Evidence) -> None:
    """Add what no tensor of the settings explains: it stays behind what does."""
    wide = _relative(message.low, message.high)
    other = KINDS["other"] * wide * evidence.weight("other")
    explained = [score for kind, score in scores.items() if kind != "other"]
    scores["other"] = min(scores.get("other", 0.0) + other, 0.5 * max(explained, default=other))
    scores["other"] = max(scores["other"], 1e-12)
    for kind, weight in evidence.kinds.items():
        if kind not in scores and weight >= 0.2:
            scores[kind] = 0.2 * KINDS[kind] * weight * wide


# The runs that a log may come from


def _runs_of(log: Log, known: Settings | None) -> list[Settings]:
    """The run, what it leaves open as the log says it; or those that the log may speak of."""
    said: dict[str, Any] = {key: log.hints[key] for key in ("sharding",) if key in log.hints}
    if log.world_size > 1:
        said["world_size"] = log.world_size
    if known is not None:
        said = {key: value for key, value in said.items() if getattr(known, key) is None}
        return [replace(known, **said)]
    said |= {key: log.hints[key] for key in ("micro_batch", "seq_len") if key in log.hints}
    if log.hints.get("quantized"):
        said |= {"quantization": {"bits": 4}, "method": "qlora"}
    usual = {"attention": "eager", "loss": "full_logits", "optimizer": "adamw_torch"}
    return [
        read_settings({"model": name, "trainer": "transformers.Trainer", **usual, **said})
        for name in _models(log) or _USUAL
    ]


def _models(log: Log) -> list[str]:
    """A name in the log that the table has; else the usual shapes of the traceback's family."""
    families = {
        word.removeprefix("modeling_") for word in log.words if word.startswith("modeling_")
    }
    for word in log.words:
        # Only the last part: a path of another machine says nothing here.
        name = word.rstrip("/").rpartition("/")[2]
        try:
            find_config(name)
            find_architecture(name)
        except (KeyError, SettingsError):
            continue
        return [name]
    return [name for name in _USUAL if find_architecture(name).family in families]


def _name_of(run: Settings) -> str:
    return run.model if isinstance(run.model, str) else find_architecture(run.model).family


# How well a tensor explains the size


class _Scored(Record):
    """A tensor of a table with its weight, and the rows and length at which it has the size."""

    item: Sized
    table: Table
    score: float
    rows: int
    length: int

    def shown(self, with_model: bool) -> tuple[str, int, str, str]:
        """Name, bytes, arithmetic and phase."""
        item, rows, length = self.item, self.rows, self.length
        name = f"{item.tensor} ({_name_of(self.table.run)})" if with_model else item.tensor
        if item.growth == FIXED:
            factors = item.sizes or f"{item.bytes:,} bytes"
            return name, item.bytes, f"{factors} = {format_size(item.bytes)}", item.phase
        row = item.bytes / self.table.rows / self.table.length**item.growth
        size = round(row * rows * length**item.growth)
        words = f"{rows:,} row{'s' if rows != 1 else ''} x {length:,}"
        if item.growth == SQUARE:
            words += f" x {length:,} tokens x {row:,.4g} bytes (heads x width)"
        else:
            words += f" tokens x {row:,.0f} bytes"
            words += f" ({item.sizes})" if "vocabulary" in item.sizes else ""
        return name, size, f"{words} = {format_size(size)}", item.phase


def _scored(table: Table, message: Message, evidence: Evidence) -> Iterator[_Scored]:
    """The tensors that can have the size."""
    factors = _by_allocated(message, table.run)
    whole: dict[str, float] = {}
    for item in table.tensors:
        whole[item.kind] = whole.get(item.kind, 0.0) + _mass(item)
    for item in table.tensors:
        chance, rows, length = _chance(item, table, message.low, message.high)
        if chance <= 0:
            continue
        score = KINDS[item.kind] * _mass(item) / whole[item.kind] * chance
        score *= likelihood(item, table.run) * evidence.weight(item.kind)
        score *= 2 if any(name in item.tensor for name in evidence.names) else 1
        score *= 1.5 if evidence.phase == item.phase else 1
        if item.growth == FIXED:
            score *= factors.get(item.kind, 1.0)
        if item.phase == "load":
            score *= factors["load"]
        yield _Scored(item, table, score, rows, length)


def _mass(item: Sized) -> float:
    """Large tensors fail more often than small ones."""
    return item.prior * math.sqrt(max(item.bytes, 1))


def _by_allocated(message: Message, run: Settings) -> dict[str, float]:
    """Factors of loading and of kinds by the bytes that are allocated already.

    Whole fine-tuning on one GPU climbs from weights (1) to gradients (1), two moments and a
    temporary; activations blur these steps.
    """
    held, total = message.allocated, message.total
    width = dtype_width(run.weights_dtype) if run.weights_dtype else 2.0
    if run.quantization is not None:
        width = (run.quantization.bits or 4) / 8
    weights = find_architecture(run.model).parameters * width
    if run.sharding not in (None, "none", "ddp"):
        # Whole float32 weights may stand before they are sharded; no more than these.
        return {"load": 0.2 if held is not None and held > 2 * weights else 1.0}
    factors = {"load": _loading(message, weights)}
    if held is None and total is not None:
        held = int(0.95 * total) - message.high
    if held is not None and run.method in (None, "full") and run.quantization is None:
        reached = sum(held >= weights * step for step in (1, 2, 4))
        for place, kind in enumerate(_CLIMB, 1):
            factors[kind] = (2.0, 1.0, 0.5, 0.5)[abs(place - reached)]
    return factors


def _loading(message: Message, weights: float) -> float:
    """Return the likelihood factor of the load phase, from the bytes already allocated: less than
    the weights is a hint and no proof, because the GPU may hold only a part of the model."""
    if message.allocated is not None and message.allocated >= 0.97 * weights:
        return 0.2
    if message.total is not None and weights > message.total:
        return 20.0
    return 1.0 if message.allocated is None else 5.0


def _chance(item: Sized, table: Table, low: int, high: int) -> tuple[float, int, int]:
    """Probability that a message shows this size; the rows and length at which it does."""
    if item.growth == FIXED:
        near = low <= (item.most or item.bytes) and (item.least or item.bytes) <= high
        exact = low <= item.bytes <= high
        return (1.0 if exact else _NEAR if near else 0.0), table.rows, table.length
    unit = item.bytes / table.rows / table.length**item.growth
    total, best = 0.0, (0.0, table.rows, table.length)
    shares = {table.rows: 1.0} if table.knows_rows else _ROW_SHARES
    for rows, share in shares.items():
        chance, length = _at_rows(unit * rows, item.growth, table, low, high)
        if 0 < table.longest < length:
            chance *= _TOO_LONG * table.longest / length
        total += share * chance
        best = max(best, (share * chance, rows, length), key=lambda one: one[0])
    return total, best[1], best[2]


def _at_rows(unit: float, growth: int, table: Table, low: int, high: int) -> tuple[float, int]:
    """The chance of lengths with which a tensor of ``unit`` bytes a token has the size, and one.

    Of a known batch the longest most often, shorter ones as often as each other, longer ones
    rarely; where it is not known, usual lengths first.
    """
    shortest = math.ceil((low / unit) ** (1 / growth))
    longest = math.floor((high / unit) ** (1 / growth))
    if longest < max(shortest, 1) or longest > 2**20:
        return 0.0, 0
    middle, wide = (shortest + longest) // 2, _relative(low, high)
    known = table.length if table.run.seq_len is not None else 0
    if not known:
        usual = next((one for one in _LENGTHS if shortest <= one <= longest), 0)
        return 0.4 * wide + (0.6 / len(_LENGTHS) if usual else 0.0), usual or middle
    # Without the last token of each row, and with what a collator adds.
    if shortest <= known <= longest or (growth == LINEAR and shortest <= known - 1 <= longest):
        return 0.35 + 0.5 / known, known
    if middle <= known:
        return 0.5 * min((longest - shortest + 1) / known, 1.0), middle
    return 0.1 * wide / (3 * (middle / known)), middle


def _relative(low: int, high: int) -> float:
    """The share of all sizes, spread over their logarithm, that lies in the interval."""
    return max(math.log(high / max(low, 1)), 1e-9) / _NATS
