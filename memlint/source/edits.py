"""What a fix does to a script, as plain data.

A rule never touches a syntax tree: it names a place by its byte span (see ``memlint.source``) and
says what shall stand there. ``memlint.fix`` turns a tuple of edits into new source in one libcst
pass. ``source`` arguments are Python expressions or statements written without indentation.
"""

from typing import Literal

from memlint.source import Span
from memlint.source.record import Record


class SetKeyword(Record):
    """Give the call at ``call`` the keyword ``name=source``; replace its value if it is there.

    ``call`` is the span of the call, or of a class definition (its bases and keywords). A call
    that unpacks a mapping (``**options``) may hold the keyword already: the fix is refused unless
    ``beside_unpacking`` says that the mapping is known not to.
    """

    call: Span
    name: str
    source: str
    beside_unpacking: bool = False


class RemoveKeyword(Record):
    """Take keyword ``name`` out of the call, with its comma and the comment that belongs to it."""

    call: Span
    name: str


class RenameKeyword(Record):
    """Call the keyword ``old`` of the call ``new``; value and layout stay."""

    call: Span
    old: str
    new: str


class SetItem(Record):
    """Give the dict display at ``mapping`` the item ``key: source``, a string key."""

    mapping: Span
    key: str
    source: str


class RemoveItem(Record):
    """Take string key ``key`` out of the dict display at ``mapping``."""

    mapping: Span
    key: str


class RenameItem(Record):
    """Rename string key ``old`` of the dict display at ``mapping``."""

    mapping: Span
    old: str
    new: str


class ReplaceExpression(Record):
    """Put ``source`` where the expression at ``span`` stands (parenthesized where it must be)."""

    span: Span
    source: str


class ReplaceCallee(Record):
    """Let the call at ``call`` call ``source`` instead; its arguments stay."""

    call: Span
    source: str


class RenameAttribute(Record):
    """Rename the attribute of the attribute access at ``span`` (``x.old`` -> ``x.new``)."""

    span: Span
    new: str


class AddImport(Record):
    """Make ``name`` of ``module`` (or ``module`` itself, if ``name`` is None) importable.

    Merged into an import of the same module that already runs at module level. Idempotent.
    """

    module: str
    name: str | None = None


class RemoveImport(Record):
    """Take ``name`` out of the ``from module import ...`` statements.

    With ``unless_used`` it stays where any other reference to it is left after all edits.
    """

    module: str
    name: str
    unless_used: bool = True


class RenameImport(Record):
    """In the import statement at ``span``: import ``new_name`` from ``new_module`` instead.

    Without a ``new_module`` (``""``) the module ``new_name`` itself is imported.
    The bound name stays what it is (``as old_name`` is added where the names differ and the old
    one is used elsewhere under that name).
    """

    span: Span
    module: str
    name: str
    new_module: str
    new_name: str


class InsertStatement(Record):
    """Insert ``source`` as statements of their own before or after the statement at ``anchor``.

    A newline at its end asks for a blank line before the statement that follows.
    """

    anchor: Span
    source: str
    where: Literal["before", "after"] = "before"


class RemoveStatement(Record):
    """Remove the statement at ``span``; ``pass`` takes its place where a block would be empty."""

    span: Span


class WrapStatements(Record):
    """Put the consecutive statements ``first`` to ``last`` under ``header`` (``with ...:``)."""

    first: Span
    last: Span
    header: str


class AddDecorator(Record):
    """Decorate the function or class definition at ``definition`` with ``@source``, outermost."""

    definition: Span
    source: str


class AddParameter(Record):
    """Give the function defined at ``definition`` the parameter ``name=default``.

    It goes behind the last parameter that can be given by position. Idempotent.
    """

    definition: Span
    name: str
    default: str


Edit = (
    SetKeyword
    | RemoveKeyword
    | RenameKeyword
    | SetItem
    | RemoveItem
    | RenameItem
    | ReplaceExpression
    | ReplaceCallee
    | RenameAttribute
    | AddImport
    | RemoveImport
    | RenameImport
    | InsertStatement
    | RemoveStatement
    | WrapStatements
    | AddDecorator
    | AddParameter
)
