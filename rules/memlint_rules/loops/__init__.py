"""Faults of hand-written loops."""
