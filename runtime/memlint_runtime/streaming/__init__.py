"""Frozen weights that stream from the host; see `streamed`."""

from __future__ import annotations

from memlint_runtime.streaming.streamed import (
    StreamedWeights,
    stream_frozen_weights,
    streamed_weights_of,
)

__all__ = ["StreamedWeights", "stream_frozen_weights", "streamed_weights_of"]
