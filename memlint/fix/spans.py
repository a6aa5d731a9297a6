"""Where every node of a syntax tree lies, in bytes, from one pass that also prints the tree.

libcst keeps white space in its nodes and positions nowhere; its own ``ByteSpanPositionProvider``
costs more than the parse. Printing the tree visits every node in order anyway, so this module
prints it once and notes, for each node, the bytes it covers with and without the white space it
owns, its parent, and the comments: about 1.3 times the cost of printing (a 3,400-line file: 65 ms
instead of 260). The printed text must equal the text parsed, else nothing may be rewritten.

libcst loses a few bytes that Python reads (form feeds that begin a line, a lone carriage return,
white space at the end of the file). It is therefore given a *view* of the file without them, and
spans are mapped back; since edits are spliced into the file's own bytes, those bytes survive.
"""

import contextlib
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import libcst as cst
from libcst._nodes.internal import CodegenState

from memlint.fix.bulk import TooMuchError, without_bulk
from memlint.fix.outcome import FixError
from memlint.fix.untouched import without_untouched
from memlint.source import Span
from memlint.source.edits import Edit
from memlint.source.parsing import compile_python, parsed

# White space and line ends are most of a tree's nodes, and no edit speaks of them.
_UNRECORDED = frozenset(
    {
        cst.SimpleWhitespace,
        cst.EmptyLine,
        cst.TrailingWhitespace,
        cst.Newline,
        cst.ParenthesizedWhitespace,
    }
)

_LONE_CR = re.compile(rb"\r(?!\n)")
# A form feed in a line's indentation makes Python count columns anew from there.
_FORM_FEED = re.compile(rb"(?m)^[ \t]*(?:\f[ \t]*)*\f")
_NEWLINE = re.compile(rb"\r\n|\r|\n")

NodeT = TypeVar("NodeT", bound=cst.CSTNode)


class _Printer(CodegenState):
    """A code generator that notes where it is."""

    def __init__(self, default_indent: str, default_newline: str) -> None:
        super().__init__(default_indent, default_newline)
        self.position = 0
        self.open: list[tuple[cst.CSTNode | None, int]] = [(None, 0)]
        self.outer: dict[cst.CSTNode, Span] = {}
        self.inner: dict[cst.CSTNode, Span] = {}
        self.parents: dict[cst.CSTNode, cst.CSTNode | None] = {}

    def add_indent_tokens(self) -> None:
        for token in self.indent_tokens:
            self.tokens.append(token)
            self.position += len(token)

    def add_token(self, value: str) -> None:
        self.tokens.append(value)
        self.position += len(value) if value.isascii() else len(value.encode("utf-8"))

    def before_codegen(self, node: cst.CSTNode) -> None:
        if type(node) not in _UNRECORDED:
            self.parents[node] = self.open[-1][0]
            self.open.append((node, self.position))

    def after_codegen(self, node: cst.CSTNode) -> None:
        if type(node) not in _UNRECORDED:
            _, start = self.open.pop()
            self.outer[node] = Span(start, self.position)

    def _span(self, node: cst.CSTNode) -> Span:
        return self.inner.get(node) or self.outer[node]

    @contextmanager
    def record_syntactic_position(
        self,
        node: cst.CSTNode,
        *,
        start_node: cst.CSTNode | None = None,
        end_node: cst.CSTNode | None = None,
    ) -> Iterator[None]:
        start = self.position
        yield
        self.inner[node] = Span(
            start if start_node is None else self._span(start_node).start,
            self.position if end_node is None else self._span(end_node).end,
        )


def _view(data: bytes) -> tuple[bytes, tuple[int, ...], tuple[int, ...]]:
    """``data`` as libcst can print it, with where it was cut and how much was lost by then."""
    stripped = _LONE_CR.sub(b"\n", data).rstrip(b" \t\f\r\n")
    if stripped.endswith(b"\\"):
        stripped = data
    if b"\f" not in stripped:
        return stripped, (), ()
    parts: list[bytes] = []
    cuts: list[int] = []
    lost: list[int] = []
    last = total = 0
    for match in _FORM_FEED.finditer(stripped):
        parts.append(stripped[last : match.start()])
        cuts.append(match.start() - total)
        total += match.end() - match.start()
        lost.append(total)
        last = match.end()
    parts.append(stripped[last:])
    return b"".join(parts), tuple(cuts), tuple(lost)


def _lost_by(cuts: tuple[int, ...], lost: tuple[int, ...], position: int) -> int:
    """Return how many bytes were cut out of the file before ``position`` of its view."""
    cut = bisect_right(cuts, position)
    return lost[cut - 1] if cut else 0


@dataclass(frozen=True)
class Tree:
    """A parsed file: ``module`` with the byte span of its nodes in ``data``.

    shown: what of it libcst was shown: it and this differ only in what no edit speaks of.
    """

    data: bytes
    shown: str
    module: cst.Module
    newline: str
    indent: str
    _outer: dict[cst.CSTNode, Span]
    _inner: dict[cst.CSTNode, Span]
    _parents: dict[cst.CSTNode, cst.CSTNode | None]
    _by_span: dict[Span, tuple[cst.CSTNode, ...]]
    _by_kind: dict[type[cst.CSTNode], list[cst.CSTNode]]

    def span(self, node: cst.CSTNode) -> Span:
        """Return the bytes of ``node`` itself: without its parentheses, commas and white space."""
        return self._inner.get(node) or self._outer[node]

    def outer(self, node: cst.CSTNode) -> Span:
        """The bytes of ``node`` with the parentheses, commas and white space that it owns."""
        return self._outer[node]

    def parent(self, node: cst.CSTNode) -> cst.CSTNode | None:
        return self._parents[node]

    def ancestors(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """Yield the parent of ``node``, its parent, and so on up to the module."""
        above = self._parents[node]
        while above is not None:
            yield above
            above = self._parents[above]

    def nodes(self, kind: type[NodeT]) -> Iterator[NodeT]:
        """Yield all nodes whose class is exactly ``kind``, in the order of the text."""
        for node in self._by_kind.get(kind, ()):
            assert isinstance(node, kind)
            yield node

    def find(self, span: Span, *kinds: type[Any]) -> cst.CSTNode | None:
        """The outermost node of one of ``kinds`` at exactly ``span``; None if there is none."""
        for node in self._by_span.get(span, ()):
            if any(isinstance(node, kind) for kind in kinds):
                return node
        return None

    def slice(self, span: Span) -> str:
        return self.data[span.start : span.end].decode("utf-8", "surrogatepass")

    def line_start(self, offset: int) -> int:
        """Return where the line that holds ``offset`` begins."""
        return max(self.data.rfind(b"\n", 0, offset), self.data.rfind(b"\r", 0, offset)) + 1

    def line_end(self, offset: int) -> int:
        """Return where the line that holds ``offset`` ends, its newline included."""
        match = _NEWLINE.search(self.data, offset)
        return match.end() if match else len(self.data)

    @cached_property
    def compiles(self) -> int:
        """2: it compiles; 1: it parses; 0: neither, for the running interpreter."""
        for answer, compiler in ((2, compile_python), (1, parsed)):
            with contextlib.suppress(SyntaxError, ValueError, RecursionError):
                compiler(self.shown)
                return answer
        return 0

    def comments(self) -> Iterator[tuple[str, Span]]:
        for node in self.nodes(cst.Comment):
            yield node.value, self._outer[node]


def _shown(view: bytes) -> str:
    """Return what libcst is shown of a view."""
    try:
        return without_bulk(view).decode("utf-8")
    except TooMuchError as error:
        raise FixError(str(error)) from error
    except UnicodeDecodeError as error:
        raise FixError("it holds a surrogate, which has no UTF-8 form") from error


def parse(text: str, fixes: Sequence[Sequence[Edit]] | None = None) -> Tree:
    """Parse ``text`` (no byte order mark) and find where its nodes are.

    fixes: those that alone are asked of the tree, which then lacks what none of them touches.
    Raises FixError where libcst cannot parse it, or would not print it as it is.
    """
    data = text.encode("utf-8", "surrogatepass")
    view, cuts, lost = _view(data)
    if fixes is not None and view == data[: len(view)]:
        view = without_untouched(view, fixes, text)
    shown = _shown(view)
    try:
        module = cst.parse_module(shown)
        printer = _Printer(module.default_indent, module.default_newline)
        module._codegen(printer)
    except cst.ParserSyntaxError as error:
        raise FixError(f"it does not parse: {error.message}") from error
    except RecursionError as error:
        raise FixError("its expressions are nested too deeply") from error
    if "".join(printer.tokens) != shown:
        raise FixError("libcst does not print it byte for byte as it is written")

    outer, inner = printer.outer, printer.inner
    if cuts:

        def moved(span: Span) -> Span:
            start = span.start + _lost_by(cuts, lost, span.start)
            if span.end == span.start:
                return Span(start, start)
            return Span(start, span.end + _lost_by(cuts, lost, span.end - 1))

        outer = {node: moved(span) for node, span in outer.items()}
        inner = {node: moved(span) for node, span in inner.items()}

    by_span: dict[Span, tuple[cst.CSTNode, ...]] = {}
    by_kind: dict[type[cst.CSTNode], list[cst.CSTNode]] = {}
    for node in printer.parents:
        by_kind.setdefault(type(node), []).append(node)
        span = inner.get(node) or outer[node]
        by_span[span] = (*by_span.get(span, ()), node)
        # ``ast`` counts the parentheses of a tuple and of a generator expression as part of it,
        # the call's own ones too where a generator expression is its only argument.
        if isinstance(node, cst.Tuple | cst.GeneratorExp):
            if node.lpar:
                wide = Span(outer[node.lpar[-1]].start, outer[node.rpar[0]].end)
            elif isinstance(node, cst.GeneratorExp):
                wide = Span(data.rfind(b"(", 0, span.start), data.find(b")", span.end) + 1)
            else:
                continue
            by_span[wide] = (*by_span.get(wide, ()), node)
    first = _NEWLINE.search(data)
    return Tree(
        data=data,
        shown=shown,
        module=module,
        newline=first.group().decode() if first else "\n",
        indent=module.default_indent,
        _outer=outer,
        _inner=inner,
        _parents=printer.parents,
        _by_span=by_span,
        _by_kind=by_kind,
    )
