"""Where a tensor goes in the end: only into numbers and logs, out of sight, or through backward.

A fix that takes something off its graph is safe only if no later backward pass wants the graph. So
what holds the graph is followed by name: through arithmetic, lists, attributes, functions of the
script and their callers. Calls that memlint cannot see into may run backward themselves.
"""

from collections.abc import Callable, Iterable
from enum import IntEnum

from memlint.engine.name_uses import is_local
from memlint.engine.nodes import (
    CallNode,
    Definition,
    Expression,
    Node,
    called_name,
    holder_of,
    is_lambda,
)
from memlint.engine.project import is_elsewhere
from memlint.engine.usage import Place, Usage, Way, parameter_of, places_of
from memlint.engine.values import Class, Function, Object, Symbol, Value, options
from memlint.flow import callables
from memlint.flow.evaluated import Evaluated


class Reach(IntEnum):
    """Where a tensor with its graph goes, the worst of all ways.

    READ: it is only read, as a number or a text. UNKNOWN: callers out of sight may get it, or an
    object keeps it. UNSEEN: a call that cannot be followed gets it. BACKWARD: a backward pass
    starts from it.
    """

    READ = 0
    UNKNOWN = 1
    UNSEEN = 2
    BACKWARD = 3


_READERS = callables.SHOWS | callables.COUNTS | callables.READS_TENSOR
_FORWARDS = ("forward", "__call__")
# What goes on with the graph, and what ends it: a test, a number, a text.
_WITH_GRAPH = frozenset({Way.COMPUTED, Way.HELD, Way.ITEM})
_ENDING = frozenset({Way.COMPARED, Way.TESTED, Way.PRINTED, Way.DROPPED, Way.KEY})


class Search:
    """One search: the worst that was met, and what was followed already.

    own: the backward pass that is asked about, which does not count. is_before: whether a call
    runs before it: a function that gets the tensor then computes something of it, as a criterion
    does.
    """

    def __init__(
        self,
        script: Evaluated,
        own: CallNode | None = None,
        is_before: Callable[[CallNode], bool] | None = None,
    ) -> None:
        self.script = script
        self.worst = Reach.READ
        self.asks_itself = False  # for what the same numbers without a graph do not have
        self._own = own
        self._is_before = is_before
        self._seen: set[tuple[object, ...]] = set()

    def _is_new(self, *key: object) -> bool:
        if self.worst is Reach.BACKWARD or key in self._seen:
            return False
        self._seen.add(key)
        return True

    def _note(self, reach: Reach) -> None:
        self.worst = max(self.worst, reach)

    # -- names -----------------------------------------------------------------------------------

    def follow(self, places: Iterable[Place], bound: Node | None = None) -> None:
        """Follow what is stored somewhere, by the statement ``bound`` where that is known."""
        for place in places:
            if place.holder is None:
                scope = self.script.flow.scope(place.node)
                self.follow_name(place.name, scope, None if place.item else bound)
                continue
            self._note(Reach.UNKNOWN)
            if self._is_new(place.name):
                for node in self.script.reads_of_attribute(place.name):
                    self.climb(node)

    def follow_name(self, name: str, scope: Node, bound: Node | None = None) -> None:
        """Follow a name of a scope; only where ``bound`` may have bound it, if that is given."""
        flow = self.script.flow
        while scope is not self.script.tree and not is_local(scope, name):
            scope, bound = flow.scope(scope), None
        if not self._is_new(name, scope, bound):
            return
        for use in flow.uses(name, scope):
            if bound is not None and flow.scope(use) is scope:
                definitions = flow.definitions(use)
                if definitions and bound not in definitions:
                    continue
            self.climb(use)

    # -- expressions -----------------------------------------------------------------------------

    def climb(self, node: Node) -> None:
        """Follow the value of an expression to what is made of it."""
        if not self._is_new(node):
            return
        use = self.script.use(node)
        if use.way in _WITH_GRAPH:
            self.climb(use.around)
        elif use.way is Way.PASSED_ON:
            self.follow(use.places)
            self.climb(use.around)
        elif use.way in (Way.READ, Way.METHOD):
            self._read(use)
        elif use.way in (Way.GIVEN, Way.CALLED):
            self._pass(use)
        elif use.way is Way.STORED:
            self.follow(use.places, use.around)
        elif use.way is Way.LOOPED:
            self.follow(use.places, None if use.name == "For" else use.around)
        elif use.way is Way.RETURNED:
            self._leave(self.script.function(node))
        elif use.way not in _ENDING:
            self._note(Reach.UNSEEN if use.way is Way.GIVEN_BACK else Reach.UNKNOWN)

    def _read(self, use: Usage) -> None:
        self._ask(use.name, is_method=use.way is Way.METHOD)
        if use.name.endswith("backward"):
            if use.around is not self._own:
                self._note(Reach.BACKWARD)
        elif use.name not in callables.DETACHES:
            self.climb(use.around)

    def _ask(self, name: str, *, is_method: bool = False) -> None:
        plain = callables.OF_ANY_TENSOR
        self.asks_itself |= name in callables.OF_GRAPHS or not (is_method or name in plain)

    # -- functions -------------------------------------------------------------------------------

    def _leave(self, function: Definition | None) -> None:
        if function is None:
            self._note(Reach.UNKNOWN)
            return
        if not self._is_new(function):
            return
        if function.name in callables.HOOKS:
            self._note(Reach.BACKWARD)
            return
        callers = list(self._callers(function))
        if not callers or None in callers:
            self._note(Reach.UNKNOWN)
        for caller in callers:
            if caller is not None:
                self.climb(caller)

    def _callers(self, function: Definition) -> Iterable[CallNode | None]:
        """The calls of a function; None for a place that names it otherwise."""
        script = self.script
        if function.name in _FORWARDS:
            return [node for node in script.call_nodes if self._is_of_own_class(node)]
        return [script.call_of(node) for node in script.mentions(function.name)]

    def _is_of_own_class(self, call: CallNode) -> bool:
        called = options(self.script.value(call.func))
        return any(isinstance(one, Object) and one.cls is not None for one in called)

    def _pass(self, use: Usage) -> None:
        if use.around is self._own:
            return
        values = list(options(self.script.value(use.call.func)))
        if all(isinstance(one, Function) for one in values):
            for one in values:
                assert isinstance(one, Function)
                self._enter(use, one)
            return
        self._pass_by_name(use.call, self._name(use, values), values)

    def _name(self, use: Usage, values: list[Value]) -> str:
        """The qualified name of what is called, or its last part behind a ``?``."""
        names = {one.name for one in values if isinstance(one, Symbol)}
        types = {one.type for one in values if isinstance(one, Object) and one.cls is None}
        if len(names) == len(values) == 1:
            return self.script.api.canonical(names.pop())
        if len(types) == len(values) == 1:
            return types.pop() or "?"
        return f"?.{use.name}" if holder_of(use.call) is not None else "?"

    def _pass_by_name(self, call: CallNode, name: str, values: list[Value]) -> None:
        top, short = name.partition(".")[0], name.rpartition(".")[2]
        holder = holder_of(call)
        if short.endswith("backward") or name.startswith(callables.DERIVATIVES):
            self._note(Reach.BACKWARD)
        elif name == "getattr":
            self._get(call)
        elif name in callables.CARRIES:
            self.climb(call)
        elif name in _READERS or top in callables.READING_PACKAGES or self._maps_reader(call, name):
            pass
        elif top in callables.CARRYING_PACKAGES:
            self.climb(call)
        elif holder is not None and self._fills(holder, called_name(call)):
            self.follow(places_of(holder))
        elif top == "?" and short in callables.PASSES_GRAPH:
            self.climb(call)
        elif short not in callables.LOGS or self.script.definitions_of(short):
            self._go_out_of_sight(call, values)

    def _fills(self, holder: Expression, method: str) -> bool:
        """True if a method puts its arguments into a list or a dict of the script."""
        holders = list(options(self.script.value(holder)))
        mapping = all(isinstance(one, Object) and one.type == "dict" for one in holders)
        return method in callables.FILLS or (mapping and method == "update")

    def _maps_reader(self, call: CallNode, name: str) -> bool:
        mapped = call.args[0] if call.args and name in ("map", "filter") else None
        return mapped is not None and self.script.name(mapped) in _READERS

    def _get(self, call: CallNode) -> None:
        """``getattr(total, "mean")``."""
        attribute = self.script.python(call.args[1]) if len(call.args) > 1 else None
        self._ask(str(attribute))
        if not isinstance(attribute, str) or attribute.endswith("backward"):
            self._note(Reach.BACKWARD if isinstance(attribute, str) else Reach.UNSEEN)
        elif attribute not in callables.DETACHES:
            called = self.script.call_of(call)
            self.climb(called if called is not None else call)

    def _go_out_of_sight(self, call: CallNode, values: list[Value]) -> None:
        """A call that nothing is known of, or of a class of the script."""
        modules = [one for one in values if isinstance(one, Object) and one.cls is not None]
        if modules and len(modules) == len(values):
            # A module's forward pass, which is followed where it is defined.
            self.climb(call)
        elif self._is_before is not None and self._is_before(call):
            if self.script.is_statement(call):
                self._note(Reach.UNKNOWN)
            self.climb(call)
        else:
            kept = bool(values) and all(isinstance(one, Class) for one in values)
            self._note(Reach.UNKNOWN if kept else Reach.UNSEEN)

    def _enter(self, use: Usage, function: Function) -> None:
        """Follow an argument into a function of the script."""
        node = function.node
        wanted = None if is_elsewhere(node) else parameter_of(function, use)
        if wanted is None:
            self._note(Reach.UNSEEN)
        elif is_lambda(node):
            self.follow_name(wanted.arg, node)
            self.climb(use.around)
        else:
            self.follow_name(wanted.arg, node, wanted)
