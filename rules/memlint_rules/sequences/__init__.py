"""Faults of sequence shape: truncation, padding, packing."""
