"""The order in which functions run that nothing at the top of a script called."""

import ast
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from heapq import heapify, heappop, heappush

from memlint.engine.values import Function, FunctionNode

# Methods that ``Trainer`` and Lightning call to evaluate.
EVALUATION_HOOKS = frozenset(
    {"prediction_step", "evaluation_loop", "validation_step", "test_step", "predict_step"}
)
# Methods that the trainers of transformers and TRL call in every step, and all that get the model.
TRAINING_HOOKS = frozenset({"training_step", "compute_loss", "get_batch_loss_metrics"})
GET_MODEL = TRAINING_HOOKS | {"prediction_step"}
# What data loaders call of a data set, which another method may make.
_OF_ITEMS = frozenset({"__getitem__", "__iter__"})
_WORD = re.compile(r"\w+")


def callers_first(
    functions: Sequence[Function], lines: Sequence[str], done: Collection[ast.AST]
) -> Iterator[Function]:
    """``functions``, as they stand in the file, but each after those whose text has its name.

    Those that run meanwhile, which ``done`` then holds, are left out. Constructors come first: they
    give their instances what methods read. lines: those of the script.
    """
    order = [one.node for one in functions if one.node not in done]
    by_node = {one.node: one for one in functions}
    if len(order) > 1:
        order = _ordered(order, lines)
    for node in order:
        if node not in done:
            yield by_node[node]


def _ordered(nodes: Sequence[FunctionNode], lines: Sequence[str]) -> list[FunctionNode]:
    names = [getattr(node, "name", "") for node in nodes]
    places: dict[str, list[int]] = {}
    for place, name in enumerate(names):
        places.setdefault(name, []).append(place)
    mentions = _mentions(nodes, names, lines)
    counts = Counter(
        word for place, words in enumerate(mentions) for word in words - {names[place]}
    )
    # The next is the first in the file that nothing left mentions, else the first that is left.
    late = _OF_ITEMS | (EVALUATION_HOOKS if TRAINING_HOOKS.intersection(names) else frozenset())
    heap = [
        (name in late or (bool(counts[name]) and name != "__init__"), place)
        for place, name in enumerate(names)
    ]
    heapify(heap)
    taken: dict[int, FunctionNode] = {}
    while heap:
        _, place = heappop(heap)
        if place in taken:
            continue
        taken[place] = nodes[place]
        for word in mentions[place] - {names[place]}:
            counts[word] -= 1
            if not counts[word]:
                for other in places[word]:
                    heappush(heap, (False, other))
    return list(taken.values())


def _mentions(
    nodes: Sequence[FunctionNode], names: Sequence[str], lines: Sequence[str]
) -> list[set[str]]:
    """The names that stand in the text of each function; many lambdas may share a line.

    A trainer calls what trains by itself, too, so that an evaluation does not count as its caller.
    """
    wanted = set(names)
    found: dict[tuple[int, int | None], set[str]] = {}
    for node in nodes:
        rows = (node.lineno, node.end_lineno)
        if rows not in found:
            text = "\n".join(lines[node.lineno - 1 : node.end_lineno])
            found[rows] = wanted.intersection(_WORD.findall(text))
    mentions = [found[node.lineno, node.end_lineno] for node in nodes]
    return [
        words - TRAINING_HOOKS if name in EVALUATION_HOOKS else words
        for name, words in zip(names, mentions, strict=True)
    ]
