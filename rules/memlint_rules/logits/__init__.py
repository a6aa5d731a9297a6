"""Faults of logits and losses."""
