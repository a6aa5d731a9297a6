"""Faults of the optimizer and of gradients."""
