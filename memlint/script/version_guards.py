"""Scripts that look for versions themselves: they catch the error, or ask a signature first."""

from __future__ import annotations

from functools import partial

from memlint.engine.guards import calls_after_failure, looked_up_in, minds_versions
from memlint.engine.nodes import Node
from memlint.script.called import Call
from memlint.script.calls import Host
from memlint.script.guesses import may_ask_for_a_version

_SIGNATURES = ("inspect.signature", "inspect.getfullargspec", "dataclasses.fields")


def is_guarded(script: Host, node: Node) -> bool:
    """True if the script itself minds versions here: it catches the error, or asks first."""
    return minds_versions(script, node, partial(may_ask_for_a_version, script))


def retries_of(script: Host, call: Call) -> tuple[Call, ...]:
    """The calls of the same thing where a handler has caught what ``call`` raises."""
    found = map(script.call_at, calls_after_failure(script, call.node))
    return tuple(one for one in found if one is not None and one.name == call.name)


def names_looked_up(script: Host) -> frozenset[str]:
    """Options that the script looks for in a signature before it passes them: those that it names,
    or all words of the script where it goes through names."""
    asked: set[Node] = {call.node for call in script.calls_to(*_SIGNATURES)}
    return looked_up_in(script, asked) if asked else frozenset()
