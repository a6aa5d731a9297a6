"""How long the sequences of a dataset are, and what that costs under padding, cutting and packing.

What: `LengthProfile`, a histogram with the questions that decide about memory as methods.
Why: every choice of this kind (`max_length`, packing, batch size) is a question about lengths.
Cost: four bytes per sequence while it is read; answers take milliseconds.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memlint_runtime.quantities import amount, token_counts, whole_number

_QUANTILES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 1.0)
_BATCH_SIZES = (2, 4, 8, 16, 32)
_FORMAT = 1


@dataclass(frozen=True, eq=False)
class LengthProfile:
    """Lengths of a dataset's sequences in tokens.

    lengths: ``[N]``, N at least 1, in the order of the data, as a `TokenBudgetSampler` wants them
        (a profile that was stored has forgotten the order).
    """

    lengths: NDArray[np.int64]

    @classmethod
    def of_lengths(cls, lengths: Iterable[int] | NDArray[np.integer]) -> LengthProfile:
        """Profile of sequences of so many tokens each."""
        if lengths is None:
            raise ValueError("lengths must be a sequence of whole numbers of tokens, got None.")
        array = token_counts(lengths if isinstance(lengths, np.ndarray) else list(lengths))
        if array.size == 0:
            raise ValueError("the data has no sequence to profile.")
        return cls(array)

    @classmethod
    def of(
        cls,
        data: Any,
        *,
        column: str | None = None,
        tokenizer: Any = None,
        limit: int | None = None,
    ) -> LengthProfile:
        """Profile of a dataset.

        data: a `datasets.Dataset` or any iterable of rows, of token lists, of texts or of
            lengths; or the path of a JSONL, JSON, text, CSV, Parquet or Arrow file, or of the
            folder of a saved dataset.
        column: what to measure of each row, by default the first of `input_ids`, `text`,
            `messages`, `prompt` with `completion` (or `chosen`, the longer of the pair) it has.
        tokenizer: counts the tokens of texts and conversations.
        limit: read only so many rows.
        """
        from memlint_runtime.lengths.reading import read_lengths

        return cls.of_lengths(read_lengths(data, column, tokenizer, limit))

    @property
    def rows(self) -> int:
        return len(self.lengths)

    @cached_property
    def _ascending(self) -> NDArray[np.int64]:
        return np.sort(self.lengths)

    @cached_property
    def tokens(self) -> int:
        return int(self.lengths.sum())

    @property
    def mean(self) -> float:
        return self.tokens / self.rows

    @property
    def longest(self) -> int:
        return int(self._ascending[-1])

    def quantile(self, share: float) -> int:
        """The least length that ``share`` (0..1) of the sequences do not exceed."""
        amount("share", share, 0)
        if share > 1.0:
            raise ValueError(f"a quantile is a share between 0 and 1, got {share}.")
        # Rounded first: 0.99 * 100 is a little above 99.
        index = int(np.ceil(round(share * self.rows, 9))) - 1
        return int(self._ascending[max(index, 0)])

    def padded_share(self, batch_size: int) -> float:
        """Share of padding (0..1) in batches of random sequences padded to their longest."""
        amount("batch_size", batch_size, 1)
        # The longest of B draws is at most the i-th length with probability (i / N)^B.
        at_most = (np.arange(1, self.rows + 1) / self.rows) ** batch_size
        chance = np.diff(at_most, prepend=0.0)
        longest = float(chance @ self._ascending)
        return 1 - self.mean / longest if longest else 0.0

    def tokens_lost(self, max_length: int) -> int:
        """Tokens cut off when every sequence is truncated to ``max_length``."""
        amount("max_length", max_length, 0, "tokens")
        return int((self.lengths - np.minimum(self.lengths, max_length)).sum())

    def rows_cut(self, max_length: int) -> int:
        """Sequences longer than ``max_length``."""
        amount("max_length", max_length, 0, "tokens")
        return self.rows - int(np.searchsorted(self._ascending, max_length, side="right"))

    def packed_share(self, capacity: int) -> float:
        """Share of slots (0..1) that hold a token when packed into rows of ``capacity``."""
        from memlint_runtime.packing.plan import plan_packing

        return plan_packing(self.lengths, capacity).fill

    def suggest_max_length(self, keep: float = 0.99, multiple_of: int = 8) -> int:
        """The least multiple of ``multiple_of`` that leaves ``keep`` of the sequences whole."""
        multiple_of = whole_number("multiple_of", multiple_of, 1)
        least = max(self.quantile(keep), 1)
        return -(-least // multiple_of) * multiple_of

    def histogram(self, bars: int = 20) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Counts ``[bars]`` and edges ``[bars + 1]`` of equal widths up to the longest."""
        bars = whole_number("bars", bars, 1)
        width = max(1, -(-(self.longest + 1) // bars))
        edges = np.arange(0, width * bars + 1, width)
        counts, _ = np.histogram(self.lengths, edges)
        return counts.astype(np.int64), edges.astype(np.int64)

    def to_dict(self) -> dict[str, Any]:
        """What the profile knows, as JSON values; `lengths` is a table of length to count."""
        suggested = self.suggest_max_length()
        values, counts = np.unique(self.lengths, return_counts=True)
        return {
            "format": _FORMAT,
            "rows": self.rows,
            "tokens": self.tokens,
            "mean": self.mean,
            "longest": self.longest,
            "quantiles": {f"{q:g}": self.quantile(q) for q in _QUANTILES},
            "padded_share": {str(b): self.padded_share(b) for b in _BATCH_SIZES},
            "suggested_max_length": suggested,
            "tokens_lost_at_suggested": self.tokens_lost(suggested),
            "packed_share_at_suggested": self.packed_share(suggested),
            "lengths": {str(v): c for v, c in zip(values.tolist(), counts.tolist(), strict=True)},
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> LengthProfile:
        """The profile that `to_dict` described."""
        if stored.get("format") != _FORMAT:
            raise ValueError(
                f"this is no length profile of format {_FORMAT} (got {stored.get('format')!r}). "
                f"Make it anew with python -m memlint_runtime.lengths."
            )
        table = stored["lengths"]
        return cls.of_lengths(np.repeat([int(v) for v in table], list(table.values())))

    def save(self, path: str | Path) -> None:
        """Write `to_dict` as JSON."""
        Path(path).write_text(json.dumps(self.to_dict(), indent=1) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> LengthProfile:
        """Read what `save` wrote."""
        return cls.from_dict(json.loads(Path(path).read_text(encoding="utf-8")))
