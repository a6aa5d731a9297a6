"""What keeps the graphs of past steps alive: sums and lists that grow by a tensor in every turn.

A tensor that autograd records holds the graph that made it. A backward pass frees the activations
of that graph, not its nodes; without one the activations stay as well. Whether something is such a
tensor is known in two ways: it was computed from a forward pass that is known, or a backward pass
of the same turn starts from it.
"""

from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum

from memlint.engine.constants import unified
from memlint.engine.growth import (
    Addition,
    Store,
    additions_in,
    attributes_bound,
    attributes_grown,
    binds_as_target,
    changes_in_place,
    contents_of,
    deletes_of,
    names_in,
    own_object,
    returned_losses,
    root_of,
    scaled_terms,
    starts_of,
    terms_of,
)
from memlint.engine.modes import is_off_around
from memlint.engine.name_uses import Loop, is_local
from memlint.engine.nodes import (
    CallNode,
    ClassNode,
    Definition,
    Expression,
    Node,
    Statement,
    arguments_of,
    holder_of,
)
from memlint.engine.project import is_elsewhere
from memlint.engine.tensors import Role, Tensor, tensors_in
from memlint.engine.usage import parameter_of, places_in, places_of
from memlint.engine.values import Function, Invocation, Object, Value, options
from memlint.flow.callables import EMPTIES, HOOKS, KEEPS_GRAPH
from memlint.flow.evaluated import query
from memlint.flow.events import EventKind, events_of
from memlint.flow.reach import Reach, Search
from memlint.script.called import Call
from memlint.script.calls import Host
from memlint.script.evaluation import evaluations_of
from memlint.script.forward_passes import Step
from memlint.script.guesses import may_use
from memlint.script.reads import forward_of
from memlint.script.setups import may_train
from memlint.source.record import NamedTuple

# Arguments of a backward pass that let another one follow.
_KEEPING = ("retain_graph", "create_graph")


class Graph(StrEnum):
    """What of a recorded tensor's graph is there. SPENT: its nodes, as a backward pass has freed
    the activations. WHOLE: the activations too, as nothing runs backward through it."""

    SPENT = "spent"
    WHOLE = "whole"


class Sum(NamedTuple):
    """``total += loss`` in a loop, which keeps its total from one iteration to the next.

    statement: the addition, or the call that makes it. target: what grows, as it is written.
    addend: what is added. loop: the innermost loop around it, or the method that a trainer runs in
    every step.
    """

    statement: Statement
    target: str
    addend: Expression
    loop: Loop | Definition


class Hoard(NamedTuple):
    """``losses.append(loss)`` in a loop, to a list that nothing in the loop empties.

    value: one of the things that are kept, so that a pair or a dict of them is several hoards.
    """

    call: CallNode
    container: str
    value: Expression
    loop: Loop | Definition


# -- sums ------------------------------------------------------------------------------------------


@query
def sums_of(script: Host) -> tuple[Sum, ...]:
    """What loops add up over their turns: ``total += loss``."""
    found = []
    for addition in additions_in(script, KEEPS_GRAPH):
        loop = _loop_of_sum(script, addition)
        if loop is not None:
            target = script.text(addition.target)
            found.append(Sum(addition.statement, target, addition.addend, loop))
    added = [one.statement for one in found]
    found += [one for one in _sums_of_meters(script) if one.statement not in added]
    return tuple(sorted(found, key=lambda one: one.statement.lineno))


def _loop_of_sum(script: Host, addition: Addition) -> Loop | Definition | None:
    """Return the loop that accumulates into the target, or None."""
    node, target = addition.statement, addition.target
    loops = script.flow.loops_around(node)
    if not loops:
        return _turn_around(script, node, target)
    for place in places_of(target):
        plain = place.is_whole and place.holder is None
        if plain and not script.flow.is_carried(loops[0], place.name):
            return None
    others = _bound_in(script, _step_around(script, loops), script.text(target))
    return loops[0] if all(one is node or changes_in_place(one) for one in others) else None


def _sums_of_meters(script: Host) -> Iterator[Sum]:
    """Yield what loops give to methods that add it to what their object keeps, and that nothing in
    the loop sets anew: ``meter.update(loss)``. The object's class may be of another file."""
    for call in script.call_nodes:
        method, loops = script.value(call.func), script.flow.loops_around(call)
        if not loops or not isinstance(method, Function) or method.bound is None:
            continue
        root, step = root_of(call.func), _step_around(script, loops)
        holder = script.text(call.func).rpartition(".")[0]
        if root is None or holder == "self" or binds_as_target(script, step, root.id):
            continue
        anew = _set_anew(script, step, method.bound)
        for argument in () if _bound_in(script, step, root.id) else call.args:
            given = parameter_of(method, script.use(argument))
            grown = attributes_grown(method.node, given.arg, KEEPS_GRAPH) if given else set()
            for name in sorted(grown - anew)[:1]:
                yield Sum(script.statement(call), f"{holder}.{name}", argument, loops[0])


def _set_anew(script: Host, loop: Loop, thing: Value) -> set[str]:
    """The attributes of an object that its methods set anew where a loop calls them."""
    found = set[str]()
    for call in script.call_nodes:
        method, around = script.value(call.func), script.flow.loops_around(call)
        if loop in around and isinstance(method, Function) and method.bound is thing:
            found |= attributes_bound(method.node, KEEPS_GRAPH)
    return found


def _turn_around(script: Host, node: Node, grows: Expression) -> Loop | Definition | None:
    """What runs a function again and again that adds to what outlives it, an attribute of its
    object or a name from outside: a trainer, in every step, or the loop of its callers."""
    function, root = script.function(node), root_of(grows)
    if function is None or root is None:
        return None
    is_of_object = root.id == own_object(function)
    if function.name in HOOKS:
        return function if is_of_object else None
    is_of_object = is_of_object and isinstance(script.parent(function), ClassNode)
    if is_local(function, root.id) and not is_of_object:
        return None
    loops = _loops_of_callers(script, function)
    step = _step_around(script, loops) if loops else None
    anew = [one for one in script.stores.get(script.text(grows), ()) if not changes_in_place(one)]
    certain = step and all(_is_outside(script, one, step) for one in anew if one is not node)
    return loops[0] if certain else None


def _loops_of_callers(script: Host, function: Definition) -> tuple[Loop, ...]:
    """The loops of this file that all runs of a function are in, innermost first."""
    runs = [one for one in script._invocations_in(function) if one.function is function]
    nests = {
        tuple(
            loop
            for loop in one.loops[::-1]
            if isinstance(loop, Loop) and script.function(loop) is not function
        )
        for one in runs
    }
    loops = nests.pop() if len(nests) == 1 else ()
    return () if any(map(is_elsewhere, loops)) else loops


def _is_outside(script: Host, store: Store, loop: Loop) -> bool:
    """True if a name or an attribute is bound before a loop, or as its object is made."""
    function = script.function(store)
    if function is script.function(loop):
        return loop not in script.flow.loops_around(store)
    return function is None or function.name == "__init__"


def _step_around(script: Host, loops: tuple[Loop, ...]) -> Loop:
    """The innermost loop; where that goes through the micro-batches of a step, the one around it:
    what a step begins anew stays small."""
    if len(loops) < 2 or not _backwards(script, loops[0]):
        return loops[0]
    steps = [one for one in events_of(script) if one.kind is EventKind.OPTIMIZER_STEP]
    within = any(loops[0] in one.loops for one in steps)
    return loops[1] if steps and not within else loops[0]


def _bound_in(script: Host, loop: Loop, name: str) -> list[Store]:
    """The statements of a loop that bind a name, an attribute or an item."""
    return [one for one in script.stores.get(name, ()) if loop in script.flow.loops_around(one)]


# -- hoards ----------------------------------------------------------------------------------------


@query
def hoards_of(script: Host) -> tuple[Hoard, ...]:
    """What loops append to lists that outlive their turns: ``losses.append(loss)``."""
    found = []
    for call in script.method_calls("append"):
        node, holder = call.node, holder_of(call.node)
        if holder is None or len(node.args) != 1:
            continue
        loops = script.flow.loops_around(node)
        loop = loops[0] if loops else _turn_around(script, node, holder)
        if loop is None or (loops and _is_emptied(script, holder, loops)):
            continue
        container = script.text(holder)
        found += [Hoard(node, container, one, loop) for one in contents_of(node.args[0])]
    return tuple(sorted(found, key=lambda one: one.call.lineno))


def _is_emptied(script: Host, node: Expression, loops: tuple[Loop, ...]) -> bool:
    """True if a list may lose its items, or has a limited number of them."""
    loop, container, root = _step_around(script, loops), script.text(node), root_of(node)
    if root is None or binds_as_target(script, loop, root.id):
        return True
    if any(_bound_in(script, loop, name) for name in {container, root.id}):
        return True
    if isinstance(made := unified(script.value(node)), Object) and made.made_by is not None:
        # ``deque(maxlen=100)``, a meter, or whatever else has a method ``append``.
        return made.made_by.name != "list"
    return script.calls_method(container, *EMPTIES) or any(
        one.startswith(container) for one in deletes_of(script)
    )


# -- graphs ----------------------------------------------------------------------------------------


def graph_of(script: Host, node: Expression, loop: Loop | Definition) -> Graph | None:
    """What of the graph of an expression is there when a turn of ``loop`` ends, or a method that a
    trainer runs; None for none, or where that is not known."""
    parts = list(terms_of(node, KEEPS_GRAPH))
    tensors = [one for one in options(script.value(node)) if isinstance(one, Tensor)]
    if _has_no_graph(script, node, parts, tensors):
        return None
    if loop is script.function(node):
        return Graph.SPENT if _is_returned(script, parts, loop) else None
    if _is_spent(script, tensors, loop) or _shares_backward(script, node, loop):
        return Graph.SPENT
    known = script.tensors(node)
    if known and all(one.graph is True and _is_whole(script, one) for one in known):
        return Graph.WHOLE
    return None


def _has_no_graph(
    script: Host, node: Expression, parts: Sequence[Expression], tensors: list[Tensor]
) -> bool:
    """True if autograd does not record an expression, on some path at least: it is off, or the
    script takes a name off its graph in place."""
    return (
        is_off_around(script.ancestors(node))
        or any(script.calls_method(script.text(one), "detach_") for one in parts)
        or any(one.graph is False for one in tensors)
    )


def _is_spent(script: Host, tensors: list[Tensor], loop: Node) -> bool:
    """True if a backward pass of the same turn runs through one of these tensors, or through what
    it is computed from."""
    if not tensors or not all(one.graph for one in tensors):
        return False
    wanted = {id(part) for one in tensors for part in _before_sums(one) if part.graph}
    starts = [start for invocation in _backwards(script, loop) for start in _starts(invocation)]
    if any(not wanted.isdisjoint(map(id, _before_sums(start))) for start in starts):
        return True
    # A model's own loss is computed from the logits that stand beside it.
    losses = {one.forward for one in starts if one.role is Role.LOSS} - {None}
    return losses.issuperset({one.forward for one in tensors})


def _backwards(script: Host, loop: Node) -> list[Invocation]:
    """The backward passes that the turns of a loop run, in functions that it calls too."""
    return [invocation for invocation in script.backward_passes if loop in invocation.loops]


def _starts(invocation: Invocation) -> list[Tensor]:
    received = options(invocation.receiver) if invocation.receiver is not None else ()
    return [one for one in received if isinstance(one, Tensor)] + tensors_in(invocation)


def _before_sums(tensor: Tensor) -> Iterator[Tensor]:
    """A tensor and what it was computed from, not further than a sum over turns."""
    pending, seen = [tensor], set()
    for one in pending:  # grows meanwhile
        if id(one) in seen or one.operation == "+=":
            continue
        seen.add(id(one))
        yield one
        pending.extend(one.sources)


def _is_whole(script: Host, tensor: Tensor) -> bool:
    """True if certainly nothing runs backward through a tensor: it is evaluated."""
    forward = forward_of(script, tensor)
    if forward is None or forward.in_training_step or forward.gradients is not True:
        return False
    if forward.training is False:
        return any(forward in one.forwards for one in evaluations_of(script))
    return forward.called and forward.facts.load is not None and not may_train(script)


# -- by name ---------------------------------------------------------------------------------------


def _shares_backward(script: Host, node: Expression, loop: Node) -> bool:
    """True if backward starts in the loop from a definition that ``node`` is made of."""
    wanted = _definitions(script, terms_of(node, KEEPS_GRAPH))
    if not wanted:
        return False
    for invocation in _backwards(script, loop):
        call = invocation.node
        if is_elsewhere(call) or script.flow.scope(call) is not script.flow.scope(node):
            continue
        holder = holder_of(call)
        starts = [*([holder] if holder is not None else []), *call.args]
        if wanted & {
            one
            for start in starts
            for one in _definitions(script, scaled_terms(start, KEEPS_GRAPH))
        }:
            return True
    return False


def _is_returned(script: Host, parts: Sequence[Expression], hook: Node) -> bool:
    """True if a trainer's method returns one of these as its loss, with the same definition."""
    if "super().training_step" in script.text(hook):
        # ``Trainer.training_step`` has run backward, and gives a detached loss.
        return False
    losses = _definitions(script, returned_losses(script, hook))
    return not losses.isdisjoint(_definitions(script, parts))


def _definitions(script: Host, nodes: Iterable[Expression]) -> set[tuple[str, tuple[Node, ...]]]:
    """The text of names and attributes and the statements that bind their roots, not globals."""
    roots = [(script.text(one), root_of(one, of_items=False)) for one in nodes]
    bound = [(text, script.flow.definitions(root)) for text, root in roots if root is not None]
    return {one for one in bound if one[1]}


# -- what a backward pass runs through -------------------------------------------------------------


def comes_from(script: Host, step: Step, node: Expression) -> bool:
    """True if all of a tensor's graph is of forward passes of a step, whose inputs the step makes:
    nothing of it is older than the turn."""
    tensors = script.tensors(node)
    forwards = {forward_of(script, one) for one in tensors}
    return bool(tensors) and all(
        forward is not None
        and forward in step.forwards
        and not forward.own
        and _is_given_by_turn(script, step, forward.node)
        for forward in forwards
    ) and not any(one.passes("arithmetic", "+=") for one in tensors)  # fmt: skip


def _is_given_by_turn(script: Host, step: Step, call: CallNode) -> bool:
    """True if the names in a call's arguments are bound by a turn of the loop."""
    if script.flow.scope(call) is not script.flow.scope(step.node):
        return False
    names = names_in(*arguments_of(call))
    return bool(names) and all(
        bound is step.node or step.node in script.flow.loops_around(bound)
        for name in names
        for bound in script.flow.definitions(name) or (script.tree,)
    )


# -- where graphs go -------------------------------------------------------------------------------


def reach_of_sum(script: Host, grown: Sum, graph: Graph) -> Reach:
    """Where what a loop adds up goes, if its graph can still be run backward."""
    search = Search(script)
    search.climb(grown.addend)
    return _settled(search, script, grown, graph, grown.target)


def reach_of_hoard(script: Host, hoard: Hoard, graph: Graph) -> Reach:
    """Where the list that a loop appends to goes, if the graphs in it can still be run backward."""
    search, holder = Search(script), holder_of(hoard.call)
    assert holder is not None
    for bound in script.flow.definitions(holder) or (None,):
        search.follow(places_of(holder), bound)
    return _settled(search, script, hoard, graph, script.text(hoard.value))


def _settled(search: Search, script: Host, kept: Sum | Hoard, graph: Graph, name: str) -> Reach:
    """The worst that a search met: nothing runs backward through a graph that is freed, but what
    the script asks of the very tensor, or sets on it, a detached one does not have."""
    tagged = any(each.startswith(f"{name}.") for each in script.stores)
    freed = graph is Graph.SPENT and _frees_graphs(script, kept.loop)
    worst = Reach.READ if freed else search.worst
    return max(worst, Reach.UNKNOWN) if search.asks_itself or tagged else worst


def reach_of_graph(script: Host, step: Step, backward: Call) -> Reach:
    """Where what shares the graph of a step's backward pass goes, after that pass.

    A function that gets it before is taken to compute something of it: a criterion.
    """
    helpers = {script.function(one.node) for one in step.forwards}
    scope = script.flow.scope(backward.node)

    def is_before(call: CallNode) -> bool:
        if script.flow.scope(call) is scope:
            return script.is_before(call, backward.node) is True
        return script.function(call) in helpers

    search = Search(script, own=backward.node, is_before=is_before)
    for forward in step.forwards:
        search.climb(forward.node)
    for start in starts_of(backward.node):
        for place in places_in(start):
            if place.holder is not None:
                search.follow([place])
                continue
            for bound in script.flow.definitions(place.node):
                search.follow_name(place.name, scope, bound)
    return search.worst


def _frees_graphs(script: Host, loop: Node) -> bool:
    """True if a loop's backward passes certainly free their graphs: a second one would fail."""
    return not may_use(script, *_KEEPING) and not any(
        one.open_keywords or len(one.arguments) > 1 or not one.keywords.keys().isdisjoint(_KEEPING)
        for one in _backwards(script, loop)
    )
