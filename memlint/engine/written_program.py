"""Programs that stand for settings of another file: syntax trees whose nodes are places there."""

import ast
from collections.abc import Iterable, Iterator, Mapping

from memlint.engine.nodes import CallNode, Expression, Module, Node
from memlint.engine.project import put
from memlint.source import Place, Span

# Of what stands nowhere in that file.
NOWHERE = Span(0, 0)
# A keyword (None for ``**``), its value, and where both are written.
Argument = tuple[str | None, Expression, Span | None]


class WrittenProgram:
    """Makes a program, statement by statement. place: where a piece is written; a piece without a
    place is where the piece around it is."""

    def __init__(self) -> None:
        self._body: list[ast.stmt] = []
        self._places: dict[Node, Span] = {}

    def imports(self, *names: str) -> None:
        """Import the things of these qualified names."""
        for name in names:
            package, _, thing = name.rpartition(".")
            alias = [ast.alias(thing)]
            self._body.append(ast.ImportFrom(package, alias, 0) if package else ast.Import(alias))

    def assigns(self, name: str, value: Expression) -> None:
        """``name = value``."""
        self._body.append(ast.Assign([ast.Name(name, ast.Store())], value))

    def does(self, value: Expression) -> None:
        """A statement for what an expression does."""
        self._body.append(ast.Expr(value))

    def name(self, dotted: str) -> Expression:
        """A name, or an attribute of one; its value is not known where nothing binds it."""
        first, *others = dotted.split(".")
        made: Expression = ast.Name(first, ast.Load())
        for each in others:
            made = ast.Attribute(made, each, ast.Load())
        return made

    def call(
        self,
        function: str,
        arguments: Iterable[Expression] = (),
        keywords: Iterable[Argument] = (),
        place: Span | None = None,
    ) -> CallNode:
        """``function(*arguments, keyword=value)``."""
        made = ast.Call(self.name(function), [*arguments], [])
        for name, value, written in keywords:
            keyword = ast.keyword(name, value)
            made.keywords.append(keyword)
            if written is not None:
                self._places[keyword] = written
        self._at(made, place)
        return made

    def sequence(self, items: Iterable[Expression], place: Span | None = None) -> Expression:
        """``[*items]``."""
        return self._at(ast.List([*items], ast.Load()), place)

    def mapping(
        self, items: Iterable[tuple[object, Expression]], place: Span | None = None
    ) -> Expression:
        """``{key: value}``."""
        pairs = [(self.value(key), value) for key, value in items]
        return self._at(ast.Dict([k for k, _ in pairs], [v for _, v in pairs]), place)

    def value(self, value: object, place: Span | None = None) -> Expression:
        """Plain data; of another kind than Python writes it is not known."""
        made: Expression = self.name("value_of_another_kind")
        if isinstance(value, Mapping):
            return self.mapping(((k, self.value(v)) for k, v in value.items()), place)
        if isinstance(value, float) and (value != value or value in (float("inf"), -float("inf"))):
            made = self.call("float", [self.value(str(value))])
        elif value is None or isinstance(value, bool | int | float | str):
            made = ast.Constant(value)
        return self._at(made, place)

    def placed(self, made: Expression, place: Span) -> Expression:
        """Return an expression that is written at a place."""
        return self._at(made, place)

    def _at(self, made: Expression, place: Span | None) -> Expression:
        if place is not None:
            self._places[made] = place
        return made

    def module(self) -> Module:
        """Return the program."""
        module = ast.Module(self._body, [])
        for order, (node, place) in enumerate(self._in_order(module, NOWHERE), start=1):
            put(node, place, order)
        return module

    def _in_order(self, node: Node, around: Span) -> Iterator[tuple[Node, Span]]:
        place = self._places.get(node, around)
        if "lineno" in node._attributes:
            yield node, place
        inner = Place(place) if isinstance(place, Place) else place
        for child in ast.iter_child_nodes(node):
            yield from self._in_order(child, inner)
