"""Prefix trees: prompts that rows share go through the model once."""
