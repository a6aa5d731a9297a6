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

from memlint.memory.checkpoints import find_architecture
from memlint.memory.oom_chances import chance_of, relative
from memlint.memory.oom_fixes import fixes
from memlint.memory.oom_frames import Evidence, read_frames
from memlint.memory.oom_log import Message, read_log
from memlint.memory.oom_runs import USUAL, name_of, runs_of
from memlint.memory.oom_sizes import FIXED, SQUARE, Sized, sized_tensors
from memlint.memory.settings import (
    Settings,
    dtype_width,
    read_settings,
)
from memlint.source.record import Record

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
_STEPS = (2.0, 1.0, 0.5)  # of a kind by how many steps of the climb it is away


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
        return {
            "kind": self.kind,
            "tensor": self.tensor,
            "bytes": self.bytes,
            "arithmetic": self.arithmetic,
            "phase": self.phase,
            "share": round(self.share, 4),
            "fixes": list(self.fixes),
        }


class Explanation(Record):
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
    runs = runs_of(log, given)
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
    models = tuple(str(name_of(run)) for run, _, _ in runs) if len(runs) < len(USUAL) else ()
    return Explanation(message, log.messages, candidates, evidence, models, given)


def _missing(text: str) -> str:
    if "out of memory" in text.lower():
        return (
            "the log reports an out-of-memory error without a size (torch writes 'Tried to "
            "allocate ...'): give the lines of torch's own message"
        )
    return "the log holds no message of torch's such as 'CUDA out of memory. Tried to allocate ...'"


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
        chance, rows, length = chance_of(item, message, run, sure)
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
    """Return how much likelier loading is, by the bytes that are allocated already.

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


# Candidates in words


def _candidates(
    weights: Mapping[str, tuple[float, float, Sized, int, int]],
    message: Message,
    evidence: Evidence,
    given: Settings | None,
    several: bool,
) -> tuple[Candidate, ...]:
    scores = {kind: entry[0] for kind, entry in weights.items()}
    other = _PRIOR["other"] * relative(message.low, message.high) * evidence.weight("other")
    # A tensor without a name never stands before one that explains the size.
    named = [score for kind, score in scores.items() if kind != "other"]
    scores["other"] = min(scores.get("other", 0.0) + other, 0.5 * max(named, default=other))
    scores["other"] = max(scores["other"], 1e-12)
    # The frames may name a kind that no tensor of the settings explains: it stays, last.
    for kind, weight in evidence.kinds.items():
        if kind not in scores and weight >= 0.2:
            scores[kind] = 0.2 * _PRIOR[kind] * weight * relative(message.low, message.high)
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
