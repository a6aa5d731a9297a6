"""The calls that attention over a forest takes.

By runs (`plan_runs`), for kernels that take runs of any length. One causal call covers every node's
own tokens; for a forest of depth one, such as packed documents, that is all. Looks back at what
stands above them are plain calls, by level or by path. A prompt with its completions takes two
calls either way, no key is copied for each branch and no T x T mask exists.

By level: for each level, the descendants of its nodes (contiguous, since nodes stand in depth-first
order) look back at the node. Nothing is copied, but a token at level n is joined n times, over
runs of keys that get short where trees get deep.

By path: the children of a node look back at the whole path down to it at once, so that every token
is joined once however deep it stands. The keys of a path are copied together where they are not
neighbours, at most as many at a time as the tree has tokens.

An outside prefix is one more such call, seen by every token: that is how completions run in a
second phase against a prompt's kept keys and values.

By blocks (`plan_blocks`), for kernels that know no window or no soft cap by runs: a node's tokens,
some at a time, over themselves and the part of their path that their window reaches. One softmax
is enough and nothing is joined; where the path is in pieces, its keys are copied together.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import pairwise
from typing import Any

import torch

from memlint_runtime.attention.forest import DocumentForest, Forest, Node
from memlint_runtime.attention.kernels.flash import CpuRuns, CudaRuns, Kernel, Runs, WindowBlocks
from memlint_runtime.attention.kernels.joined import Part, Where

__all__ = ["plan_blocks", "plan_runs", "plan_windows"]

_Range = tuple[int, int]
# Tokens in ranges, and the ranges of what all of them see.
_Glance = tuple[list[_Range], list[_Range]]


def plan_runs(
    forest: Forest,
    device: torch.device,
    prefix_tokens: int = 0,
    *,
    window: int | None = None,
    cuda: Callable[..., Kernel] | None = None,
    by_path: bool | None = None,
) -> tuple[Part, ...]:
    """The calls that attention over `forest` takes, and over an outside prefix where there is one.

    window: for a forest of depth one on CUDA. by_path: look back by path, for trees of more than
    two levels; None for what the device is faster with. cuda: in place of `CudaRuns`.
    """
    assert window is None or (forest.depth == 1 and not prefix_tokens)
    on_cpu = device.type == "cpu" and cuda is None
    kernel: Callable[..., Kernel] = CpuRuns if on_cpu else cuda or CudaRuns
    own = _own_runs(forest, device, wait=on_cpu)
    reach: dict[str, Any] = {} if window is None else {"window": window}
    parts = [Part(kernel(own, own, causal=True, **reach))]
    # On CUDA, flash kernels take runs of any length in one call, and copies cost more.
    by_path = on_cpu if by_path is None else by_path
    parts += [_look(each, kernel, device) for each in _looks_back(forest, by_path=by_path)]
    if prefix_tokens:
        every, prefix = Runs.of([forest.num_tokens], device), Runs.of([prefix_tokens], device)
        parts.append(Part(kernel(every, prefix), joins=True, outside=True))
    return tuple(parts)


def _own_runs(forest: Forest, device: torch.device, *, wait: bool) -> Runs:
    """Every node's own tokens. wait: for bounds that are known on the device alone."""
    if isinstance(forest, DocumentForest) and not wait:
        return Runs(forest.bounds.to(device), forest.span)
    return Runs.of([node.end - node.start for node in forest.nodes], device)


def _looks_back(forest: Forest, *, by_path: bool) -> Iterable[list[_Glance]]:
    if forest.depth == 1:
        return ()
    return _by_path(forest) if by_path and forest.depth > 2 else _by_level(forest)


def _by_level(forest: Forest) -> Iterator[list[_Glance]]:
    for level in range(forest.depth):
        inner = [node for node in forest.nodes if node.level == level and node.stop > node.end]
        if inner:
            yield [([(node.end, node.stop)], [(node.start, node.end)]) for node in inner]


def _by_path(forest: Forest) -> Iterator[list[_Glance]]:
    """The glances of a level together, as far as they hold no more keys than the forest has."""
    levels: list[list[_Glance]] = [[] for _ in range(forest.depth)]
    path: list[Node] = []
    children: dict[int, list[_Range]] = {}  # by the start of the node above them
    for node in forest.nodes:
        del path[node.level :]
        if path:
            above = path[-1]
            if above.start not in children:
                children[above.start] = []
                seen = _touching([(one.start, one.end) for one in path])
                levels[above.level].append((children[above.start], seen))
            children[above.start].append((node.start, node.end))
        path.append(node)
    for glances in levels:
        together: list[_Glance] = []
        keys = 0
        for queries, seen in glances:
            count = sum(b - a for a, b in seen)
            if together and keys + count > forest.num_tokens:
                yield together
                together, keys = [], 0
            together.append((_touching(queries), seen))
            keys += count
        if together:
            yield together


def _look(glances: list[_Glance], kernel: Callable[..., Kernel], device: torch.device) -> Part:
    """Glances as the runs of one call."""
    queries = [sum(b - a for a, b in ranges) for ranges, _ in glances]
    keys = [sum(b - a for a, b in ranges) for _, ranges in glances]
    return Part(
        kernel(Runs.of(queries, device), Runs.of(keys, device)),
        _where([r for ranges, _ in glances for r in ranges], device),
        _where([r for _, ranges in glances for r in ranges], device),
        joins=True,
    )


def plan_windows(forest: Forest, window: int, prefix_tokens: int, block: int) -> tuple[Part, ...]:
    """Attention under a window by the CPU's flash kernel: roots that fit it by causal runs, all
    else by blocks, with keys as in `plan_blocks`."""
    device = torch.device("cpu")
    fitting: list[_Range] = []
    if not prefix_tokens:
        roots = ((node.start, node.end) for node in forest.nodes if node.level == 0)
        fitting = [(a, b) for a, b in roots if b - a <= window]
    parts: list[Part] = []
    for start, end in _touching(fitting):
        own = Runs.of([b - a for a, b in fitting if start <= a < end], device)
        where = slice(start, end)
        parts.append(Part(CpuRuns(own, own, causal=True), where, where))
    kernel, done = WindowBlocks(window, block), set(fitting)
    blocks = plan_blocks(forest, device, kernel, window, prefix_tokens, block, without=done)
    return (*parts, *blocks)


def plan_blocks(
    forest: Forest,
    device: torch.device,
    kernel: Kernel,
    window: int | None,
    prefix_tokens: int,
    block: int,
    *,
    without: Collection[_Range] = (),
) -> tuple[Part, ...]:
    """Blocks of at most `block` tokens that hold every token of the forest once, save the nodes
    `without`. Keys are those of the outside prefix, if there is one, and the forest's, in one."""
    P = prefix_tokens
    path: list[_Range] = []
    blocks = []
    for node in forest.nodes:
        del path[node.level :]
        own = node.start + P, node.end + P
        for start in range(node.start, node.end, block):
            if (node.start, node.end) in without:
                break
            stop = min(start + block, node.end)
            seen = [(0, P), *path, (own[0], stop + P)]
            if window is not None:
                seen = _last(seen, window - 1 + stop - start)
            keys_at = _where(_touching([r for r in seen if r[0] < r[1]]), device)
            blocks.append(Part(kernel, slice(start, stop), keys_at))
        path.append(own)
    return tuple(blocks)


def _last(ranges: list[_Range], tokens: int) -> list[_Range]:
    """The last so many tokens of the ranges, or all."""
    left: list[_Range] = []
    for a, b in reversed(ranges):
        left.insert(0, (max(a, b - tokens), b))
        tokens -= min(tokens, b - a)
    return left


def _touching(ranges: list[_Range]) -> list[_Range]:
    """The same tokens in the same order, in as few ranges as can be."""
    joined: list[_Range] = []
    for a, b in ranges:
        if joined and joined[-1][1] == a:
            joined[-1] = (joined[-1][0], b)
        else:
            joined.append((a, b))
    return joined


def _where(ranges: list[_Range], device: torch.device) -> Where:
    """A view where the ranges touch, else an index."""
    if all(a[1] == b[0] for a, b in pairwise(ranges)):
        return slice(ranges[0][0], ranges[-1][1])
    return torch.cat([torch.arange(a, b, device=device) for a, b in ranges])
