"""How likely torch's message shows the size of a tensor.

A fixed size is shown or not. One that grows with the tokens is spread over the batches that the run
may have: the longest one most often where they are known, usual lengths first where they are not.
"""

from __future__ import annotations

import math

from memlint.memory.oom_log import Message
from memlint.memory.oom_sizes import FIXED, LINEAR, SQUARE, Sized
from memlint.memory.settings import Settings

_LENGTHS = (128, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 10240, 12288,
            16384, 20480, 24576, 32768, 65536, 131072)  # fmt: skip
_ROWS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64)
_SPREAD = math.log(2**30)  # nats over which a size of unknown origin is spread
_NEAR = 0.3  # of a fixed size that fits with added tokens or padding
_TOO_LONG = 0.15  # of a length beyond what the model was made for


def chance_of(item: Sized, message: Message, run: Settings, sure: bool) -> tuple[float, int, int]:
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
    wide = relative(low, high)
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
            return share * 0.6 / len(_LENGTHS) + share * 0.4 * relative(low, high), usual
    return share * 0.4 * relative(low, high), (shortest + longest) // 2


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


def relative(low: int, high: int) -> float:
    """The share of all sizes, spread over their logarithm, that lies in the interval."""
    return max(math.log(high / max(low, 1)), 1e-9) / (_SPREAD / 3)
