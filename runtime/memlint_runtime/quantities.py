"""What counts and lengths are, checked where they come in.

What: `whole_number` and `amount` for a limit or a count, `token_counts` for the lengths of a
dataset, `holds_rows` for a batch given in the place of a row.
Why: None, text, a fraction or a batch would fail far from the call that gave it, in an error of
another kind, or not at all. ValueError says which argument it was.
Cost: a look at each length.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["amount", "holds_rows", "token_counts", "whole_number"]


def whole_number(name: str, value: Any, least: int, unit: str = "") -> int:
    """``value`` as an int of at least ``least``; 8.0 is one, 8.5, True, None and text are not."""
    try:
        if isinstance(value, bool):  # True would be 1
            raise TypeError
        whole = isinstance(value, float) and value.is_integer()
        number = int(value) if whole else operator.index(value)
    except (TypeError, ValueError, RuntimeError):  # of a tensor, each is possible
        raise ValueError(f"{name} must be a whole number, got {value!r}.") from None
    if number < least:
        raise ValueError(f"{name} must be at least {_with_unit(least, unit)}, got {value}.")
    return number


def amount(name: str, value: Any, least: int, unit: str = "") -> None:
    """Raise unless ``value`` is a number of at least ``least``, be it a fraction or infinite."""
    try:
        if isinstance(value, bool):
            raise TypeError
        short = bool(value < least) or math.isnan(value)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be a number, got {value!r}.") from None
    if short:
        raise ValueError(f"{name} must be at least {_with_unit(least, unit)}, got {value}.")


def token_counts(lengths: Any) -> NDArray[np.int64]:
    """``lengths`` ``[N]``, a flat sequence of numbers of tokens, as int64.

    ValueError for fractions, negative numbers, None and other shapes.
    """
    array = _as_array(lengths)
    if array.shape == (0,):
        return np.zeros(0, dtype=np.int64)
    whole = array.dtype.kind in "iu" or (array.dtype.kind == "f" and bool(_whole(array).all()))
    if array.ndim != 1 or not whole:
        raise ValueError(
            f"lengths must be a flat sequence of integers, whole numbers of tokens, one per "
            f"sequence; got {_described(lengths, array)}."
        )
    counts = array.astype(np.int64, copy=False)
    if counts.min() < 0:
        index = int(np.argmin(counts))
        raise ValueError(
            f"lengths must not be negative, got {counts[index]} at index {index}: they are whole "
            f"numbers of tokens."
        )
    return counts


def holds_rows(values: Any) -> bool:
    """True if ``values`` of a row are themselves rows: a batch's column, or a tensor [1, L]."""
    if getattr(values, "ndim", 1) != 1:
        return True
    first = next((value for value in values if value is not None), 0)
    return isinstance(first, list | tuple) or getattr(first, "ndim", 0) > 0


def _as_array(lengths: Any) -> NDArray[Any]:
    try:
        array = np.asarray(lengths)
        # Integers kept as objects, as a column of pandas may have them.
        return np.asarray(array.tolist()) if array.dtype.kind == "O" else array
    except (TypeError, ValueError):  # rows of different lengths
        return np.asarray(None)


def _whole(array: NDArray[np.floating]) -> NDArray[np.bool_]:
    whole: NDArray[np.bool_] = np.isfinite(array) & (np.trunc(array) == array)
    return whole


def _described(lengths: Any, array: NDArray[Any]) -> str:
    if not array.ndim:
        return f"{lengths!r}" if lengths is None else f"a {type(lengths).__name__}"
    if array.ndim == 1 and array.dtype.kind == "f":
        index = int(np.argmin(_whole(array)))
        return f"{array[index]} at index {index}"
    return f"an array of {array.dtype} of shape {array.shape}"


def _with_unit(least: int, unit: str) -> str:
    return f"{least} {unit}" if unit else f"{least}"
