"""Classes of the runtime that stand in for a library's.

A drop-in subclass takes the library class's arguments and keeps its methods, so what the tables
know of the one holds for the other. Whether a script has the stand-in is asked here too.
"""

# Package of drop-in subclasses -> the package whose public names they carry.
_STAND_INS = {"memlint_runtime.trl.": "trl"}


def original_of(qualname: str) -> str:
    """``trl.GRPOTrainer`` for ``memlint_runtime.trl.GRPOTrainer``, wherever in the package it is
    imported from; any other name as it is."""
    for prefix, package in _STAND_INS.items():
        if qualname.startswith(prefix):
            parts = qualname.removeprefix(prefix).split(".")
            for index, part in enumerate(parts):
                if part[:1].isupper():
                    return ".".join([package, *parts[index:]])
    return qualname


def stands_in(qualname: str) -> bool:
    """True if ``qualname`` is a class of the runtime in a library class's place."""
    return original_of(qualname) != qualname
