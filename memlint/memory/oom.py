"""Which tensor could not be allocated: ``explain(log, settings)``.

Each tensor of the run gives the probability that torch shows exactly this size: all of it where
the size is fixed, spread over lengths where it grows with the tokens. That, times how often its
kind runs out of memory, times what the traceback says, is a candidate's weight; the weights of
all, divided by their sum, are the shares.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from memlint.memory.checkpoints import find_architecture, find_config
from memlint.memory.oom_fixes import fixes
from memlint.memory.oom_frames import Evidence, read_frames
from memlint.memory.oom_log import Log, Message, read_log
from memlint.memory.oom_sizes import FIXED, LINEAR, SQUARE, Sized, sized_tensors
from memlint.memory.settings import (
    Settings,
    SettingsError,
    dtype_width,
    read_settings,
    replace,
)
from memlint.source.record import Plain

# How often each kind is what fails, before anything is known: logits and their copies and the
# attention's scores are the largest tensors of most runs.
_PRIOR = {
    "logits": 0.08,
    "logits_fp32": 0.12,
    "log_softmax": 0.12,
    "logits_gradient": 0.06,  # backward needs little more than forward had
    "eval_logits": 0.03,
    "attention_scores": 0.12,
    "activation": 0.09,
    "mlp_activation": 0.12,
    "weights": 0.07,
    "weight_gradient": 0.05,
    "gathered_parameter": 0.03,
    "gradient_bucket": 0.015,
    "optimizer_state": 0.06,
    "optimizer_temporary": 0.05,
    "kv_cache": 0.01,
    "state_dict_copy": 0.01,
    "dequantized_weight": 0.03,
    "merged_weight": 0.004,
    "reference_model": 0.01,
    "other": 0.005,
}
_LENGTHS = (128, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 10240, 12288,
            16384, 20480, 24576, 32768, 65536, 131072)  # fmt: skip
_ROWS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64)
# Shapes taken where the log names no model: the families that are fine-tuned most.
_USUAL = (
    "meta-llama/Llama-2-7b-hf",
    "meta-llama/Llama-2-13b-hf",
    "meta-llama/Llama-2-70b-hf",
    "meta-llama/Llama-3.1-8B",
    "meta-llama/Llama-3.2-1B",
    "meta-llama/Llama-3.2-3B",
    "mistralai/Mistral-7B-v0.1",
    "Qwen/Qwen2.5-0.5B",
    "Qwen/Qwen2.5-1.5B",
    "Qwen/Qwen2.5-3B",
    "Qwen/Qwen2.5-7B",
    "Qwen/Qwen2.5-14B",
    "Qwen/Qwen2.5-32B",
    "Qwen/Qwen3-8B",
    "google/gemma-2-9b",
    "openai-community/gpt2",
)
_SPREAD = math.log(2**30)  # nats over which a size of unknown origin is spread
_STEPS = (2.0, 1.0, 0.5)  # of a kind by how many steps of the climb it is away
_NEAR = 0.3  # of a fixed size that fits with added tokens or padding
_TOO_LONG = 0.15  # of a length beyond what the model was made for


class Candidate(Plain):
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
        return {
            "kind": self.kind,
            "tensor": self.tensor,
            "bytes": self.bytes,
            "arithmetic": self.arithmetic,
            "phase": self.phase,
            "share": round(self.share, 4),
            "fixes": list(self.fixes),
        }


class Explanation(Plain):
    """What a log's first message is about. settings: what was known of the run, or None."""

    message: Message
    messages: tuple[Message, ...]
    candidates: tuple[Candidate, ...]
    evidence: Evidence
    models: tuple[str, ...]
    settings: Settings | None

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
    given = read_settings(settings) if isinstance(settings, Mapping) else settings
    message = log.messages[0]
    evidence = read_frames(log.frames)
    runs = _runs(log, given)
    weights: dict[str, tuple[float, float, Sized, int, int]] = {}
    for run, share, sure in runs:
        tensors = sized_tensors(run, known_loss=run.loss is not None)
        for item, score, rows, length in _scored(tensors, message, evidence, run, sure):
            total, best, *_ = weights.get(item.kind, (0.0, -1.0, item, rows, length))
            score *= share
            if score > best:
                weights[item.kind] = (total + score, score, item, rows, length)
            else:
                _, _, kept, kept_rows, kept_length = weights[item.kind]
                weights[item.kind] = (total + score, best, kept, kept_rows, kept_length)
    candidates = _candidates(weights, message, evidence, given, len(runs) > 1)
    models = tuple(str(_name(run)) for run, _, _ in runs) if len(runs) < len(_USUAL) else ()
    return Explanation(message, log.messages, candidates, evidence, models, given)


def _missing(text: str) -> str:
    if "out of memory" in text.lower():
        return (
            "the log reports an out-of-memory error without a size (torch writes 'Tried to "
            "allocate ...'): give the lines of torch's own message"
        )
    return "the log holds no message of torch's such as 'CUDA out of memory. Tried to allocate ...'"


def _name(run: Settings) -> str:
    return run.model if isinstance(run.model, str) else find_architecture(run.model).family


# The runs that come into question


def _runs(log: Log, given: Settings | None) -> list[tuple[Settings, float, bool]]:
    """Runs with their shares, and whether the batch is known."""
    if given is not None:
        run = given
        if run.world_size is None and log.world_size > 1:
            run = replace(run, world_size=log.world_size)
        if run.sharding is None and "sharding" in log.hints:
            run = replace(run, sharding=log.hints["sharding"])
        return [(run, 1.0, True)]
    names = _models(log)
    values: dict[str, Any] = {}
    for key in ("micro_batch", "seq_len", "sharding"):
        if key in log.hints:
            values[key] = log.hints[key]
    if log.world_size > 1:
        values["world_size"] = log.world_size
    if log.hints.get("quantized"):
        values["quantization"] = {"bits": 4}
        values["method"] = "qlora"
    known = "seq_len" in values and "micro_batch" in values
    runs: list[tuple[Settings, float, bool]] = []
    for name in names or _USUAL:
        run = read_settings({"model": name, "trainer": "transformers.Trainer", **values})
        try:
            find_architecture(run.model)
        except SettingsError:
            continue
        if run.attention is None:
            run = replace(run, attention="eager", loss="full_logits", optimizer="adamw_torch")
        runs.append((run, 1.0, known))
    return [(run, 1.0 / len(runs), sure) for run, _, sure in runs]


def _models(log: Log) -> list[str]:
    """Names in the log that the table has; else the usual shapes of the traceback's family."""
    names: list[str] = []
    families: set[str] = set()
    for word in log.words:
        if word.startswith("modeling_"):
            families.add(word.removeprefix("modeling_"))
            continue
        # Only the last part: a path of another machine says nothing here.
        name = word.rstrip("/").rpartition("/")[2]
        try:
            find_config(name)
        except KeyError:
            continue
        names.append(name)
        break
    if names:
        return names
    return [name for name in _USUAL if find_architecture(name).family in families]


# How well a tensor explains the size


def _scored(
    tensors: tuple[Sized, ...], message: Message, evidence: Evidence, run: Settings, sure: bool
) -> Iterator[tuple[Sized, float, int, int]]:
    """Tensors with a positive weight, and the rows and length at which they have the size."""
    loading = _loading(message, run)
    climb = _climb(message, run)
    whole: dict[str, float] = {}
    for item in tensors:
        whole[item.kind] = whole.get(item.kind, 0.0) + _mass(item)
    for item in tensors:
        chance, rows, length = _chance(item, message, run, sure)
        if chance <= 0:
            continue
        weight = _PRIOR[item.kind] * _mass(item) / whole[item.kind]
        score = weight * chance * item.layout * evidence.weight(item.kind)
        if evidence.names and any(name in item.tensor for name in evidence.names):
            score *= 2
        if evidence.phase == item.phase:
            score *= 1.5
        if item.phase == "load":
            score *= loading
        if item.growth == FIXED:
            score *= climb.get(item.kind, 1.0)
        yield item, score, rows, length


def _mass(item: Sized) -> float:
    """Large tensors fail more often than small ones."""
    return item.prior * math.sqrt(max(item.bytes, 1))


def _loading(message: Message, run: Settings) -> float:
    """How much likelier loading is by what is allocated: less than the weights, or more.

    Part of a model may be all that its GPU holds, so that less is a hint and no proof.
    """
    width = dtype_width(run.weights_dtype) if run.weights_dtype else 2.0
    if run.quantization is not None:
        width = (run.quantization.bits or 4) / 8
    weights = find_architecture(run.model).parameters * width
    if run.sharding not in (None, "none", "ddp"):
        # Whole float32 weights may stand before they are sharded; no more than these.
        beyond = message.allocated is not None and message.allocated > 2 * weights
        return 0.2 if beyond else 1.0
    if message.allocated is not None and message.allocated >= 0.97 * weights:
        return 0.2
    if message.total is not None and weights > message.total:
        return 20.0
    return 1.0 if message.allocated is None else 5.0


_ORDER = ("weights", "weight_gradient", "optimizer_state", "optimizer_temporary")


def _climb(message: Message, run: Settings) -> dict[str, float]:
    """Factors by what was held: weights come first, then gradients, states, and temporaries.

    Whole fine-tuning on one GPU climbs these steps one after another; activations blur them.
    """
    held = message.allocated
    if held is None and message.total is not None:
        held = int(0.95 * message.total) - message.high
    whole = run.method in (None, "full") and run.quantization is None
    if held is None or not whole or run.sharding not in (None, "none", "ddp"):
        return {}
    width = dtype_width(run.weights_dtype) if run.weights_dtype else 2
    step = find_architecture(run.model).parameters * width
    # Weights 1, gradients 1, two moments, a temporary.
    reached = sum(held >= step * top for top in (1, 2, 4))
    return {
        kind: _STEPS[min(abs(place - reached), len(_STEPS) - 1)]
        for place, kind in enumerate(_ORDER)
        if kind != "weights"
    }


def _chance(item: Sized, message: Message, run: Settings, sure: bool) -> tuple[float, int, int]:
    """Probability that the message shows this size; the rows and length at which it does."""
    low, high = message.low, message.high
    if item.growth == FIXED:
        if low <= item.bytes <= high:
            return 1.0, item.rows, item.length
        near = low <= (item.most or item.bytes) and (item.least or item.bytes) <= high
        return (_NEAR if near else 0.0), item.rows, item.length
    chance, rows, length = _growing_chance(item, low, high, run, sure)
    return chance, rows, length


def _fit(item: Sized, length: int) -> float:
    """How likely rows of a length are: less the further they are beyond what the model can."""
    if 0 < item.longest < length:
        return _TOO_LONG * item.longest / length
    return 1.0


def _growing_chance(
    item: Sized, low: int, high: int, run: Settings, sure: bool
) -> tuple[float, int, int]:
    if sure and run.seq_len is not None and run.micro_batch is not None:
        chance, rows, length = _known_batch(item, low, high)
        return chance * _fit(item, length), rows, length
    if run.seq_len is not None or run.micro_batch is not None:
        return _half_known(item, low, high, run)
    return _unknown_batch(item, low, high)


def _root(value: float, growth: int) -> float:
    return math.sqrt(value) if growth == SQUARE else value


def _known_batch(item: Sized, low: int, high: int) -> tuple[float, int, int]:
    """The longest batch most often, shorter ones as often as each other, longer ones rarely."""
    shortest = math.ceil(_root(low / item.each, item.growth))
    longest = math.floor(_root(high / item.each, item.growth))
    if item.growth == LINEAR:
        # Without the last token of each row, and with what a collator adds.
        full = low <= item.bytes <= high or low <= item.bytes - item.each <= high
    else:
        full = low <= item.bytes <= high
    if full:
        return 0.35 + 0.5 / item.length, item.rows, item.length
    if longest < shortest or longest < 1:
        return 0.0, item.rows, item.length
    count = longest - shortest + 1
    middle = (shortest + longest) // 2
    if middle <= item.length:
        return 0.5 * min(count / item.length, 1.0), item.rows, middle
    # Longer than the settings say: another batch, or an unbounded length.
    wide = _relative(low, high)
    return 0.1 * wide / (3 * (middle / item.length)), item.rows, middle


def _half_known(item: Sized, low: int, high: int, run: Settings) -> tuple[float, int, int]:
    best = (0.0, item.rows, item.length)
    rows_known = run.micro_batch is not None
    options = (item.rows,) if rows_known else _ROWS
    total = 0.0
    for rows in options:
        each = item.each * rows / item.rows
        if rows_known:
            chance, length = _free_length(each, item.growth, low, high, 1.0)
        else:
            size = each * item.length**item.growth
            chance = 0.35 if low <= size <= high else 0.0
            length = item.length
            if not chance:
                scaled = item._replace(bytes=round(size), rows=rows)
                chance, _, length = _known_batch(scaled, low, high)
            chance /= len(options)
        chance *= _fit(item, length)
        total += chance
        if chance > best[0]:
            best = (chance, rows, length)
    return total, best[1], best[2]


def _free_length(each: float, growth: int, low: int, high: int, share: float) -> tuple[float, int]:
    shortest = math.ceil(_root(low / each, growth))
    longest = math.floor(_root(high / each, growth))
    if longest < max(shortest, 1) or longest > 2**20:
        return 0.0, 0
    for usual in _LENGTHS:
        if shortest <= usual <= longest:
            return share * 0.6 / len(_LENGTHS) + share * 0.4 * _relative(low, high), usual
    return share * 0.4 * _relative(low, high), (shortest + longest) // 2


def _unknown_batch(item: Sized, low: int, high: int) -> tuple[float, int, int]:
    best = (0.0, 1, item.length)
    total = 0.0
    for rows in _ROWS:
        each = item.each * rows / item.rows
        share = 1.0 / (rows * sum(1 / other for other in _ROWS)) ** 0.5 / len(_ROWS) ** 0.5
        chance, length = _free_length(each, item.growth, low, high, share)
        chance *= _fit(item, length)
        total += chance
        if chance > best[0]:
            best = (chance, rows, length)
    return total, best[1], best[2]


def _relative(low: int, high: int) -> float:
    """The share of all sizes, spread over their logarithm, that lies in the interval."""
    return max(math.log(high / max(low, 1)), 1e-9) / (_SPREAD / 3)


# Candidates in words


def _candidates(
    weights: Mapping[str, tuple[float, float, Sized, int, int]],
    message: Message,
    evidence: Evidence,
    given: Settings | None,
    several: bool,
) -> tuple[Candidate, ...]:
    scores = {kind: entry[0] for kind, entry in weights.items()}
    other = _PRIOR["other"] * _relative(message.low, message.high) * evidence.weight("other")
    # A tensor without a name never stands before one that explains the size.
    named = [score for kind, score in scores.items() if kind != "other"]
    scores["other"] = min(scores.get("other", 0.0) + other, 0.5 * max(named, default=other))
    scores["other"] = max(scores["other"], 1e-12)
    # The frames may name a kind that no tensor of the settings explains: it stays, last.
    for kind, weight in evidence.kinds.items():
        if kind not in scores and weight >= 0.2:
            scores[kind] = 0.2 * _PRIOR[kind] * weight * _relative(message.low, message.high)
    total = sum(scores.values()) or 1.0
    listed: list[Candidate] = []
    for kind, score in sorted(scores.items(), key=lambda pair: -pair[1]):
        share = score / total
        if share < 0.002 and len(listed) >= 3:
            continue
        if kind in weights:
            _, _, item, rows, length = weights[kind]
            listed.append(_candidate(item, rows, length, share, given, several))
        else:
            listed.append(
                Candidate(
                    kind,
                    "unknown",
                    message.shown,
                    "no tensor of this kind has this size by the settings known",
                    evidence.phase or "unknown",
                    share,
                    fixes(kind, given),
                )
            )
    return tuple(listed)


def _candidate(
    item: Sized, rows: int, length: int, share: float, given: Settings | None, several: bool
) -> Candidate:
    each = item.each * rows / item.rows
    size = round(each * length**item.growth) if item.growth != FIXED else item.bytes
    name = f"{item.tensor} ({item.model})" if several else item.tensor
    return Candidate(
        item.kind,
        name,
        size,
        _words(item, rows, length, each, size),
        item.phase,
        share,
        fixes(item.kind, given),
    )


def _words(item: Sized, rows: int, length: int, each: float, size: int) -> str:
    shown = format_size(size)
    if item.growth == FIXED:
        return f"{item.sizes or f'{item.bytes:,} bytes'} = {shown}"
    row = each / rows
    if item.growth == SQUARE:
        return (
            f"{rows:,} row{'s' if rows != 1 else ''} x {length:,} x {length:,} tokens x "
            f"{row:,.4g} bytes (heads x width) = {shown}"
        )
    return (
        f"{rows:,} row{'s' if rows != 1 else ''} x {length:,} tokens x {row:,.0f} bytes"
        f"{_per_token(item)} = {shown}"
    )


def _per_token(item: Sized) -> str:
    return f" ({item.sizes})" if item.sizes and "vocabulary" in item.sizes else ""


def format_size(size: int) -> str:
    """A size as torch shows it."""
    if size >= 2**30:
        return f"{size / 2**30:.2f} GiB"
    if size >= 2**20:
        return f"{size / 2**20:.2f} MiB"
    return f"{size / 2**10:.2f} KiB"
