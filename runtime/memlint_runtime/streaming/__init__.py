"""Frozen weights that stream from the host; see `streamed`."""

from __future__ import annotations

from memlint_runtime.streaming.loading import load_streamed
from memlint_runtime.streaming.planning import StreamingPlan, plan_streaming
from memlint_runtime.streaming.streamed import (
    StreamedWeights,
    stream_frozen_weights,
    streamed_weights_of,
)

__all__ = [
    "StreamedWeights", "StreamingPlan", "load_streamed", "plan_streaming", "stream_frozen_weights",
    "streamed_weights_of",
]  # fmt: skip
