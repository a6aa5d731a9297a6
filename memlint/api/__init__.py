"""Which options, names and defaults the libraries have in each of their releases.

The tables are extracted from released wheels (``memlint.api.extract``) and shipped as data; what
they cannot show is written by hand in ``memlint.api.knowledge``. A rule asks an ``Api`` at a
``Target`` and never hard-codes a version. Nothing here imports torch, transformers or trl.
"""
