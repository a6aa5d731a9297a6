"""Faults of precision and weights."""
