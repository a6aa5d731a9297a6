"""The order in which functions run that nothing at the top of a script called.

A function is run with unknown arguments only where nothing calls it: its callers go first, wherever
they stand in the file.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence

from memlint.script.values import Function, FunctionNode

_WORD = re.compile(r"\w+")


def callers_first(
    functions: Sequence[Function], lines: Sequence[str], done: Collection[ast.AST]
) -> Iterator[Function]:
    """``functions``, as they stand in the file, but each after those whose text has its name.

    Those that run meanwhile, which ``done`` then holds, are left out. Constructors come first: they
    give their instances what methods read. lines: those of the script.
    """
    waiting = {one.node: one for one in functions if one.node not in done}
    if len(waiting) == 1:
        yield from waiting.values()
        return
    names = {node: getattr(node, "name", "") for node in waiting}
    words = {node: _words(node, lines).intersection(names.values()) for node in waiting}
    mentioned = Counter(word for node in waiting for word in words[node] if word != names[node])

    def is_next(node: FunctionNode) -> bool:
        return names[node] == "__init__" or not mentioned[names[node]]

    while waiting:
        node = next(filter(is_next, waiting), None) or next(iter(waiting))
        function = waiting.pop(node)
        mentioned.subtract(word for word in words[node] if word != names[node])
        if node not in done:
            yield function


def _words(function: ast.stmt | ast.expr, lines: Sequence[str]) -> set[str]:
    """The words in the text of a function."""
    text = lines[function.lineno - 1 : function.end_lineno]
    return set(_WORD.findall("\n".join(text)))
