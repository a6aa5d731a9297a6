"""A script that the engine has run: its tree, its values, and the calls as they were evaluated."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import cached_property, wraps
from typing import TypeVar, cast

from memlint.api.lookup import Api
from memlint.engine.constants import python_value
from memlint.engine.interpreter import Interpreter
from memlint.engine.nodes import Expression, Index, Module, Node
from memlint.engine.project import is_elsewhere
from memlint.engine.scopes import Flow
from memlint.engine.tensors import Tensor, Use, known_tensors
from memlint.engine.tree import Tree
from memlint.engine.usage import Usage, usage_of
from memlint.engine.values import UNKNOWN, Invocation, Object, Symbol, Value, options
from memlint.source import Source

_BACKWARD = ("backward", "manual_backward")


S = TypeVar("S", bound="Evaluated")
T = TypeVar("T")


def query(answer: Callable[[S], T]) -> Callable[[S], T]:
    """Ask a question of each script once."""

    @wraps(answer)
    def asked(script: S) -> T:
        known = script.answers
        if answer not in known:
            known[answer] = answer(script)
        return cast("T", known[answer])

    return asked


class Evaluated(Tree):
    """What is known of a script when the engine has run it."""

    def __init__(self, source: Source, tree: Module, api: Api, run: Interpreter) -> None:
        super().__init__(source, tree, run.trees[1:])
        self.api = api
        self._run = run
        self.answers: dict[object, object] = {}

    @property
    def _index(self) -> Index:
        return self._run.index

    # -- names and values ------------------------------------------------------------------------

    def value(self, node: Expression) -> Value:
        """What an expression may be, over all ways in which it is reached."""
        return self._run.values.get(node, UNKNOWN)

    def python(self, node: Expression) -> object:
        """The Python value of an expression, or UNSURE."""
        return python_value(self.value(node))

    def name(self, node: Expression) -> str | None:
        """The canonical qualified name that an expression certainly stands for."""
        value = self.value(node)
        return self.api.canonical(value.name) if isinstance(value, Symbol) else None

    def evaluated(self) -> Iterator[tuple[Expression, Value]]:
        """Yield the expressions of this file that some path reaches, and their values."""
        return ((n, value) for n, value in self._run.values.items() if not is_elsewhere(n))

    def use(self, node: Node) -> Usage:
        """Return what is done with the value of an expression where it stands."""
        return usage_of(self, node)

    flow = cached_property(Flow)

    # -- calls -----------------------------------------------------------------------------------

    @property
    def invocations(self) -> list[Invocation]:
        """Every call as it was evaluated, in the order of the run."""
        return self._run.invocations

    @cached_property
    def backward_passes(self) -> list[Invocation]:
        """The calls that run a backward pass, in the order of the run."""
        return [one for one in self.invocations if one.name.rpartition(".")[2] in _BACKWARD]

    # -- tensors ---------------------------------------------------------------------------------

    def tensors(self, node: Expression) -> tuple[Tensor, ...]:
        """The tensors that an expression may be; empty where it may be something else, too."""
        return known_tensors(self.value(node))

    @property
    def tensor_uses(self) -> list[Use]:
        """What reads tensors, in the order of the run."""
        return self._run.tensor_uses

    def uses_at(self, node: Expression) -> tuple[Use, ...]:
        """What reads the tensor that an expression makes, over all runs."""
        return tuple(self._uses.get(node, ()))

    @cached_property
    def _uses(self) -> dict[Expression | None, list[Use]]:
        grouped: dict[Expression | None, list[Use]] = defaultdict(list)
        for use in self._run.tensor_uses:
            grouped[use[0].node].append(use)
        return grouped

    def tensor_places(self, node: Expression) -> list[Expression]:
        """The expressions that may be the tensor that an expression makes."""
        return self._tensor_places.get(node, [])

    @cached_property
    def _tensor_places(self) -> dict[Expression, list[Expression]]:
        grouped: dict[Expression, list[Expression]] = defaultdict(list)
        for place, value in self._run.values.items():
            for one in options(value):
                if isinstance(one, Tensor) and one.node is not None:
                    grouped[one.node].append(place)
        return grouped

    def object_places(self, objects: set[int]) -> list[Expression]:
        """The expressions that may be one of the objects with these identities."""
        return [
            place
            for place, value in self._run.values.items()
            if any(id(one) in objects for one in options(value))
        ]

    def objects_made_at(self, nodes: set[Node]) -> list[Object]:
        """The objects that these calls made."""
        return [one for one in self._run.objects if one.made_by is not None and one.node in nodes]
