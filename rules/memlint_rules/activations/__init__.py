"""Faults of activations: checkpointing, caches, attention, outputs."""
