"""Fixtures of all tests of streamed weights."""

from tests.runtime.streaming.schedulers import poisoned

__all__ = ["poisoned"]
