"""The calls of a script: by node, by name, by method, and in the order of the run."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from memlint.engine.forwards import ForwardRun
from memlint.engine.invocations import Invocation
from memlint.engine.nodes import call_itself
from memlint.engine.project import is_elsewhere
from memlint.script.calls import Call

if TYPE_CHECKING:
    from memlint.engine.nodes import CallNode, Node
    from memlint.script.model import Script


def invocations_by_node(script: Script) -> dict[CallNode, list[Invocation]]:
    grouped: dict[CallNode, list[Invocation]] = defaultdict(list)
    for invocation in script._run.invocations:
        if call_itself(invocation.node) is not None and invocation.name != "fire":
            grouped[invocation.node].append(invocation)
    return grouped


def nodes_by_name(script: Script) -> dict[str, list[CallNode]]:
    """The call nodes of each canonical name: few names are asked for, of many calls."""
    by_written: dict[str, list[CallNode]] = defaultdict(list)
    for node, invocations in script._by_node.items():
        if not is_elsewhere(node):
            by_written[invocations[0].name].append(node)
    grouped: dict[str, list[CallNode]] = defaultdict(list)
    for name, nodes in by_written.items():
        grouped[script.api.canonical(name)] += nodes
    return grouped


def nodes_by_method(script: Script) -> dict[str, list[CallNode]]:
    grouped: dict[str, list[CallNode]] = defaultdict(list)
    for name, nodes in script._by_name.items():
        grouped[name.rpartition(".")[2]] += nodes
    return grouped


def call_of(script: Script, node: CallNode) -> Call:
    call = script._made.get(node)
    if call is None:
        call = script._made[node] = Call(script, script._by_node[node])
    return call


def in_order(script: Script, nodes: list[CallNode]) -> list[Call]:
    ordered = nodes
    if len(nodes) > 1:
        ordered = sorted(nodes, key=lambda node: (node.lineno, node.col_offset))
    return [call_of(script, node) for node in ordered]


def all_calls(script: Script) -> tuple[Call, ...]:
    """Every call of the script that some path reaches."""
    return tuple(in_order(script, [one for one in script._by_node if not is_elsewhere(one)]))


def calls_to(script: Script, *names: str) -> tuple[Call, ...]:
    """Calls of callees by canonical qualified name (instances of subclasses included)."""
    return tuple(call for name in names for call in in_order(script, script._by_name.get(name, [])))


def method_calls(script: Script, *methods: str) -> tuple[Call, ...]:
    """Calls whose name ends in one of ``methods``, whatever it is called on."""
    return tuple(
        call for method in methods for call in in_order(script, script._by_method.get(method, []))
    )


def library_calls(script: Script, *packages: str) -> tuple[Call, ...]:
    """Calls of what is in one of the top-level ``packages``, by canonical name."""
    beginnings = tuple(f"{package}." for package in packages)
    return tuple(
        in_order(
            script,
            [
                node
                for name, nodes in script._by_name.items()
                if name.startswith(beginnings)
                for node in nodes
            ],
        )
    )


def calls_of_several(script: Script, *packages: str) -> tuple[tuple[Call, ...], ...]:
    """Calls of a name that is one of several things of the top-level ``packages``: the call
    once as a call of each (``trainer_class = SFTTrainer if tune else DPOTrainer``)."""
    beginnings = tuple(f"{package}." for package in packages)
    found = []
    for node in script._by_name.get("?", ()):
        invocations = script._by_node[node]
        names = list(dict.fromkeys(name for one in invocations for name in one.candidates))
        if names and all(name.startswith(beginnings) for name in names):
            call = Call(script, invocations)
            found.append(tuple(call.as_call_of(script.api.canonical(name)) for name in names))
    return tuple(found)


def call_at(script: Script, node: Node | None) -> Call | None:
    """The call that a node of the script is."""
    return None if is_elsewhere(node) else script.call_anywhere(node)


def call_anywhere(script: Script, node: Node | None) -> Call | None:
    """The call that a node is, of another file of the project too: it has no place here."""
    made = call_itself(node)
    return call_of(script, made) if made is not None and made in script._by_node else None


def calls_of(script: Script, invocations: list[Invocation]) -> tuple[Call, ...]:
    """The places where evaluations of calls took place, in source order, each once."""
    nodes = dict.fromkeys(
        invocation.node for invocation in invocations if invocation.node in script._by_node
    )
    return tuple(in_order(script, [node for node in nodes if not is_elsewhere(node)]))


# -- in the order of the run -----------------------------------------------------------------------


def invocations_between(script: Script, first: int, last: int) -> list[Invocation]:
    """The calls that were evaluated in a stretch of the run, in order."""
    found = [one for one in script._run.invocations if first < one.order <= last]
    return sorted(found, key=lambda invocation: invocation.order)


def invocations_in(script: Script, function: Node) -> list[Invocation]:
    """The calls that the runs of a function made, those of what it calls included."""
    extents = script._run.extents.get(function, [])
    return [one for first, last in extents for one in script.invocations_between(first, last)]


def end_of_run(script: Script, invocation: Invocation) -> int:
    """The number of the last evaluation of the run that a call belongs to: from the top of the
    script, or of the function that runs by itself as nothing calls it."""
    if invocation.order <= script._run.end_of_top:
        return script._run.end_of_top
    around = [
        last
        for extents in script._run.extents.values()
        for first, last in extents
        if first < invocation.order <= last
    ]
    return max(around, default=invocation.order)


def call_leading_to(script: Script, run: ForwardRun) -> Call | None:
    """The call of this file by which a forward pass in a helper or another file is reached."""
    for function, extents in script._run.extents.items():
        name = getattr(function, "name", "")
        if function is not run.function and not is_elsewhere(function):
            continue
        for first, last in extents:
            if not first <= run.order <= last:
                continue
            for invocation in reversed(script.invocations_between(0, first)):
                if invocation.name.rpartition(".")[2] == name and not is_elsewhere(invocation.node):
                    return script.call_at(invocation.node)
    return None
