"""Whether scripts train models of classes that transformers does not have."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

from memlint.engine.project import Modules, project_of
from memlint.source.diagnostics import ReadError
from memlint.source.reading import read_source


def trains_own_code(place: str) -> Iterator[bool]:
    """Yield for each trainer of the script at ``place`` whether its model may be of a class that
    transformers does not have; True for a script that cannot be read."""
    from memlint.api import Api, newest
    from memlint.script import build_script

    try:
        source = read_source(place)
        if b"Trainer" not in source.data:
            return
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # invalid escapes and the like in the user's code
            project = project_of(place, source.data, Modules())
            script = build_script(source, Api(newest()), project)
    except (ReadError, SyntaxError, RecursionError):
        yield True
        return
    yield from (each.trains_own_code for each in script.trainers)
