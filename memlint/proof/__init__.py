"""Proof of what a fix does: a script and its fixed version, run side by side."""
