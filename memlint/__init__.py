"""memlint reads LLM training scripts, says what wastes GPU memory, and rewrites it.

Importing this package imports nothing heavy: no torch, no libcst, no rich.
"""

__version__ = "0.1.0"
