"""The syntax tree of a script, indexed: what stands where, around what, and which names are bound.

Cost: one walk over all nodes, made when something is first asked of it, some 5 ms for a thousand
lines; the engine's own questions are answered by the same walk.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import TypeVar

from memlint.engine.name_uses import parameters
from memlint.engine.nodes import Index, indexed, walk
from memlint.engine.project import ElsewhereError, are_of_one_file, is_elsewhere, place_of_setting
from memlint.engine.values import FunctionNode
from memlint.source import Source, Span

Node = TypeVar("Node", bound=ast.AST)
_COMMENTS = re.compile(rb"^[ \t]*+#.*", re.MULTILINE)


def packages_at_top(module: ast.Module) -> frozenset[str]:
    """The packages that a module certainly imports: only imports and texts stand before these."""
    found: set[str] = set()
    for statement in module.body:
        match statement:
            case ast.Import(names=names):
                found.update(alias.name.partition(".")[0] for alias in names)
            case ast.ImportFrom(module=str(name), level=0):
                found.add(name.partition(".")[0])
            case ast.ImportFrom() | ast.Expr(value=ast.Constant()):
                pass
            case _:
                break
    return frozenset(found)


def code_of(source: Source, module: ast.Module) -> bytes:
    """Return a script without its prose: strings that are statements, and lines of comments."""
    parts: list[bytes] = []
    end = 0
    for node in sorted(indexed(module)[1][ast.Expr], key=lambda node: node.lineno):  # type: ignore[attr-defined]
        match node:
            case ast.Expr(value=ast.Constant(value=str())):
                parts.append(source.data[end : source.offset(node.lineno, node.col_offset)])
                end = source.offset(node.end_lineno or 0, node.end_col_offset or 0)
    return _COMMENTS.sub(b"", b"".join([*parts, source.data[end:]]))


class Tree:
    """A module and its source. others: the files of the project that were run for it."""

    def __init__(self, source: Source, tree: ast.Module, others: Sequence[ast.Module] = ()) -> None:
        self.source = source
        self.tree = tree
        self.others = others

    # -- places ----------------------------------------------------------------------------------

    def span(self, node: ast.AST) -> Span:
        """Return the bytes that a node covers; a setting's place in the file that gives it.

        Raises ElsewhereError for code of another file, which has no place in this one.
        """
        place = place_of_setting(node)
        if place is not None:
            return place
        if is_elsewhere(node):
            raise ElsewhereError(f"{type(node).__name__} of another file")
        source = self.source
        return Span(
            source.offset(node.lineno, node.col_offset),  # type: ignore[attr-defined]
            source.offset(node.end_lineno, node.end_col_offset),  # type: ignore[attr-defined]
        )

    def is_before(self, first: ast.AST, last: ast.AST) -> bool | None:
        """True if ``first`` begins before ``last``; None where they are of two files."""
        if not are_of_one_file(first, last):
            return None
        start = (first.lineno, first.col_offset)  # type: ignore[attr-defined]
        return start < (last.lineno, last.col_offset)  # type: ignore[attr-defined]

    def text(self, node: ast.AST) -> str:
        """The source of a node, as it is written; of another file's, as Python would write it."""
        if is_elsewhere(node) or place_of_setting(node) is not None:
            return ast.unparse(node)
        return self.source.slice(self.span(node))

    @property
    def _index(self) -> Index:
        """The node around each node, and all nodes by type, breadth first."""
        raise NotImplementedError

    @cached_property
    def _index_elsewhere(self) -> Index:
        return indexed(*self.others)

    @property
    def _around_elsewhere(self) -> dict[ast.AST, ast.AST]:
        """The node around each node of other files."""
        return self._index_elsewhere[0]

    def nodes_anywhere(self, kind: type[Node]) -> list[Node]:
        """Return the nodes of a type in all files, which have no order."""
        if not self.others:
            return self.nodes(kind)
        elsewhere: list[Node] = self._index_elsewhere[1].get(kind, [])  # type: ignore[assignment]
        return [*self.nodes(kind), *elsewhere]

    def parent(self, node: ast.AST) -> ast.AST | None:
        """Return the node around a node, in its own file."""
        around = self._index[0].get(node)
        if around is None and node is not self.tree and self.others:
            return self._around_elsewhere.get(node)
        return around

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes around a node, nearest first."""
        around = self._index[0]
        if node not in around and node is not self.tree and self.others:
            around = self._around_elsewhere
        parent = around.get(node)
        while parent is not None:
            yield parent
            parent = around.get(parent)

    def enclosing(self, node: ast.AST, *kinds: type[ast.AST]) -> ast.AST | None:
        """The nearest node of one of ``kinds`` around ``node``."""
        return next((one for one in self.ancestors(node) if isinstance(one, kinds)), None)

    def statement(self, node: ast.AST) -> ast.stmt:
        """The statement that a node belongs to."""
        if isinstance(node, ast.stmt):
            return node
        found = self.enclosing(node, ast.stmt)
        assert isinstance(found, ast.stmt), "an expression stands in a statement"
        return found

    def is_statement(self, node: ast.expr) -> bool:
        """True if an expression is a statement of its own, whose value nothing reads."""
        return isinstance(self.parent(node), ast.Expr)

    def is_simple(self, statement: ast.stmt) -> bool:
        """True if a statement is an assignment, an expression or a return: it runs as often."""
        return isinstance(statement, ast.Assign | ast.Expr | ast.Return)

    def function(self, node: ast.AST) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
        """The function definition around a node."""
        found = self.enclosing(node, ast.FunctionDef, ast.AsyncFunctionDef)
        return found if isinstance(found, ast.FunctionDef | ast.AsyncFunctionDef) else None

    def definition(self, function: ast.AST) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
        """A function where it has a name; None for a lambda."""
        return function if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) else None

    def class_of(self, method: ast.AST) -> ast.ClassDef | None:
        """The class of which a function is a method; None for a plain function."""
        around = self.parent(method)
        return around if isinstance(around, ast.ClassDef) else None

    def functions_around(self, node: ast.AST) -> Iterator[FunctionNode]:
        """The functions around a node, lambdas included, nearest first."""
        return (one for one in self.ancestors(node) if isinstance(one, FunctionNode))

    def takes_parameter(self, node: ast.AST) -> bool:
        """True if an expression reads a parameter of a function around it, which callers choose."""
        read = {one.id for one in walk([node]) if isinstance(one, ast.Name)}
        functions = self.functions_around(node) if read else ()
        return any(one.arg in read for function in functions for one in parameters(function))

    def keywords_around(self, node: ast.AST) -> list[str]:
        """The keywords under which calls get what a node is part of."""
        return [one.arg for one in self.ancestors(node) if isinstance(one, ast.keyword) and one.arg]

    def calls_around(self, node: ast.AST) -> list[ast.Call]:
        """The calls that a node is part of, nearest first."""
        return [one for one in self.ancestors(node) if isinstance(one, ast.Call)]

    def given_as(self, *keywords: str) -> list[ast.expr]:
        """What calls get under one of ``keywords``."""
        return [one.value for one in self.nodes(ast.keyword) if one.arg in keywords]

    def is_in_branch(self, node: ast.AST) -> bool:
        """True if an ``if`` is anywhere around a node."""
        return self.enclosing(node, ast.If) is not None

    def branches_around(self, node: ast.AST) -> set[tuple[ast.AST, bool]]:
        """The conditions around a node, and whether it stands in what runs if they hold."""
        inner = [node, *self.ancestors(node)]
        return {
            (around, any(child is one for one in around.body))
            for child, around in pairwise(inner)
            if isinstance(around, ast.If | ast.Try)
        }

    def nodes(self, kind: type[Node]) -> list[Node]:
        """All nodes of exactly one type, breadth first, without the contexts that nodes share."""
        return self._index[1].get(kind, [])  # type: ignore[return-value]

    def is_target(self, node: ast.expr) -> bool:
        """True if an expression is bound or deleted where it stands, and not read."""
        return isinstance(getattr(node, "ctx", None), ast.Store | ast.Del)

    @cached_property
    def _mentions(self) -> dict[str, list[ast.Name | ast.Attribute]]:
        found: dict[str, list[ast.Name | ast.Attribute]] = defaultdict(list)
        for name in self.nodes(ast.Name):
            found[name.id].append(name)
        for attribute in self.nodes(ast.Attribute):
            found[attribute.attr].append(attribute)
        return found

    def mentions(self, name: str) -> list[ast.Name | ast.Attribute]:
        """Where a variable or an attribute has a name, bound or read."""
        return self._mentions.get(name, [])

    @property
    def variables(self) -> Iterator[ast.Name]:
        """Yield where a variable is read."""
        return (one for one in self.nodes(ast.Name) if isinstance(one.ctx, ast.Load))

    @cached_property
    def strings(self) -> list[str]:
        """The strings that are written, prose included."""
        return [one.value for one in self.nodes(ast.Constant) if isinstance(one.value, str)]

    @property
    def spelled(self) -> Iterator[str]:
        """Yield what variables and attributes are called, and the strings."""
        yield from self._mentions
        yield from self.strings

    def attributes(self, name: str) -> list[ast.Attribute]:
        """Where an attribute has a name, read or set."""
        return [one for one in self.mentions(name) if isinstance(one, ast.Attribute)]

    @property
    def attribute_names(self) -> Iterator[str]:
        """Yield what attributes are called."""
        return (one.attr for one in self.nodes(ast.Attribute))

    def reads_of_attribute(self, name: str, anywhere: bool = False) -> list[ast.Attribute]:
        """Where an attribute is read, of whatever it is; in other files too if ``anywhere``."""
        nodes = self.nodes_anywhere(ast.Attribute) if anywhere else self.attributes(name)
        return [one for one in nodes if one.attr == name and isinstance(one.ctx, ast.Load)]

    def places_of_string(self, text: str) -> list[ast.Constant]:
        """Where a string is written."""
        return [one for one in self.nodes(ast.Constant) if one.value == text]

    def definitions_of(self, name: str) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
        """The functions and methods of the file that have a name."""
        return self._definitions.get(name, [])

    @cached_property
    def functions(self) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
        """All functions and methods that are defined, breadth first."""
        return [*self.nodes(ast.FunctionDef), *self.nodes(ast.AsyncFunctionDef)]

    @cached_property
    def _definitions(self) -> dict[str, list[ast.FunctionDef | ast.AsyncFunctionDef]]:
        found: dict[str, list[ast.FunctionDef | ast.AsyncFunctionDef]] = defaultdict(list)
        for function in self.functions:
            found[function.name].append(function)
        return found

    def calls_named(self, name: str) -> list[ast.Call]:
        """The calls of functions and methods of a name, reached or not."""
        called = map(self.call_of, self.mentions(name))
        return [call for call in called if call is not None]

    @cached_property
    def iterations_elsewhere(self) -> list[tuple[ast.AST, ast.expr]]:
        """Those of ``iterations`` that are loops in other files."""
        loops = self._index_elsewhere[1].get(ast.For, ())
        return [(loop, loop.iter) for loop in loops if isinstance(loop, ast.For)]

    @cached_property
    def iterations(self) -> list[tuple[ast.AST, ast.expr]]:
        """Each loop and comprehension, and what it goes through."""
        inner = [(self.parent(one), one.iter) for one in self.nodes(ast.comprehension)]
        return [
            *((loop, loop.iter) for loop in self.nodes(ast.For)),
            *((loop, loop.iter) for loop in self.nodes(ast.AsyncFor)),
            *((around, iterated) for around, iterated in inner if around is not None),
        ]

    @property
    def call_nodes(self) -> list[ast.Call]:
        """All calls that are written, reached or not."""
        return self.nodes(ast.Call)

    def is_named(self, *words: str, ignore: tuple[str, ...] = ()) -> bool:
        """True if one of ``words`` is an attribute, a keyword or a string of the script.

        Keywords and strings in calls of the methods ``ignore`` do not count.
        """
        return any(node.attr in words for node in self.nodes(ast.Attribute)) or any(
            not self._is_in_call(node, ignore)
            for node in (
                *(node for node in self.nodes(ast.keyword) if node.arg in words),
                *(node for node in self.nodes(ast.Constant) if node.value in words),
            )
        )

    def _is_in_call(self, node: ast.AST, methods: tuple[str, ...]) -> bool:
        call = self.enclosing(node, ast.Call) if methods else None
        return (
            isinstance(call, ast.Call)
            and isinstance(call.func, ast.Attribute)
            and call.func.attr in methods
        )

    def sets(self, *names: str) -> bool:
        """True if an attribute is set or a method is called by one of these names, in any file."""
        return any(
            node.attr in names
            and (not isinstance(node.ctx, ast.Load) or self.call_of(node) is not None)
            for node in self.nodes_anywhere(ast.Attribute)
        ) or any(
            len(node.args) > 1 and getattr(node.args[1], "value", None) in names
            for node in self.nodes_anywhere(ast.Call)
            if isinstance(node.func, ast.Name) and node.func.id == "setattr"
        )

    def call_of(self, function: ast.AST) -> ast.Call | None:
        """The call of which an expression is the function; None where it is not called."""
        parent = self.parent(function)
        return parent if isinstance(parent, ast.Call) and parent.func is function else None

    def is_shared(self, name: str) -> bool:
        """True if code out of sight may read a name: another function, cell or module."""
        if name in self._declared:
            return True
        # The top of a script that lists its names has those alone that are bound by then.
        return any(
            (one.lineno >= self._first_lines.get(name, 0) or self.function(one) is not None)
            and self._asked_for(one) in (None, name)
            for one in self._name_lists
        )

    @cached_property
    def _declared(self) -> frozenset[str]:
        """The names that functions take from around them, to bind them there."""
        declared = [one.names for one in self.nodes(ast.Global)]
        declared += [one.names for one in self.nodes(ast.Nonlocal)]
        return frozenset(name for names in declared for name in names)

    @cached_property
    def _first_lines(self) -> dict[str, int]:
        """Where each name stands first, comprehensions left out."""
        uses = (one for one in self.nodes(ast.Name) if not self._is_of_comprehension(one))
        lines: dict[str, int] = {}
        for one in uses:
            lines[one.id] = min(one.lineno, lines.get(one.id, one.lineno))
        return lines

    @cached_property
    def _name_lists(self) -> list[ast.Call]:
        """The calls that list all names, ``locals()``, or may read any: ``eval(text)``."""
        named = [(getattr(one.func, "id", ""), one) for one in self.nodes(ast.Call)]
        return [
            one
            for name, one in named
            if name in ("globals", "locals", "eval", "exec")
            or (name in ("dir", "vars") and not one.args)
        ]

    def _asked_for(self, names: ast.Call) -> str | None:
        """The one name that is looked for: ``"loss" in locals()``; None for any other use."""
        match self.parent(names):
            case ast.Compare(left=ast.Constant(value=str(name)), ops=[ast.In() | ast.NotIn()]):
                return name
        return None

    def _is_of_comprehension(self, node: ast.AST) -> bool:
        return any(
            isinstance(one, ast.comprehension | ast.ListComp) for one in self.ancestors(node)
        )

    def calls_method(self, holder: str, *methods: str) -> bool:
        """True if one of ``methods`` is called on what is written as ``holder``."""
        return any(
            self.text(called.value) == holder
            for method in methods
            for called in self._called.get(method, ())
        )

    @cached_property
    def _called(self) -> dict[str, list[ast.Attribute]]:
        found: dict[str, list[ast.Attribute]] = defaultdict(list)
        for call in self.nodes(ast.Call):
            if isinstance(call.func, ast.Attribute):
                found[call.func.attr].append(call.func)
        return found

    # -- names -----------------------------------------------------------------------------------

    @cached_property
    def _bindings(self) -> dict[str, list[ast.AST]]:
        """Where each plain name is bound or deleted (imports left out: they are bound early)."""
        found: dict[str, list[ast.AST]] = defaultdict(list)
        for name in self.nodes(ast.Name):
            if not isinstance(name.ctx, ast.Load):
                found[name.id].append(name)
        definitions: list[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef] = [
            *self.nodes(ast.FunctionDef),
            *self.nodes(ast.AsyncFunctionDef),
            *self.nodes(ast.ClassDef),
        ]
        for definition in definitions:
            found[definition.name].append(definition)
        for argument in self.nodes(ast.arg):
            found[argument.arg].append(argument)
        return found

    @cached_property
    def _loads(self) -> dict[str, int]:
        count: dict[str, int] = defaultdict(int)
        for node in self.nodes(ast.Name):
            if isinstance(node.ctx, ast.Load):
                count[node.id] += 1
        return count

    def binds(self, name: str) -> bool:
        """True if a plain name is bound anywhere by other means than an import."""
        return name in self._bindings

    def is_read_once(self, name: str) -> bool:
        """True if a plain name is read at one place and bound at one place, in all of the file."""
        return self._loads.get(name) == 1 and len(self._bindings.get(name, ())) == 1

    def is_bound_before(self, value: ast.expr, at: ast.AST) -> bool:
        """True if all names in ``value`` are definitely bound where ``at`` stands: ``value`` means
        there what it means where it is written."""
        function = self.function(at)
        shared = function is self.function(value)
        for name in {node.id for node in ast.walk(value) if isinstance(node, ast.Name)}:
            for node in self._bindings.get(name, ()):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Del):
                    continue
                home = self.function(node)
                if not shared and home is not None:
                    return False
                if home is function and self.is_before(node, at) is not True:
                    return False
        return True

    def sole_assignment(self, name: ast.Name) -> ast.Assign | None:
        """The statement ``name = ...``, if the name is bound there only and read here only."""
        if not self.is_read_once(name.id):
            return None
        for statement in self.nodes(ast.Assign):
            match statement.targets:
                case [ast.Name(id=bound)] if bound == name.id:
                    return statement
        return None

    @cached_property
    def unread_constants(self) -> tuple[tuple[ast.Name, object], ...]:
        """``name = constant`` at the top of the file whose name is read nowhere: the target and
        the value. A name that a string spells counts as read (``globals()["name"]``)."""
        read = {one.id for one in self.nodes(ast.Name) if not isinstance(one.ctx, ast.Store)}
        spelled = {one.value for one in self.nodes(ast.Constant) if isinstance(one.value, str)}
        found: list[tuple[ast.Name, object]] = []
        for statement in self.tree.body:
            match statement:
                case ast.Assign(targets=[ast.Name() as target], value=ast.Constant(value=value)):
                    if target.id not in read and target.id not in spelled:
                        found.append((target, value))
        return tuple(found)
