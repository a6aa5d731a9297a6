"""Make the drafts of one pass into splices: sequences, imports, blocks and levels together.

What several fixes do to one call, one import or one block has to be laid out once, with all of it
known: whether a trailing comma is the last, whether an import is still used, whether a block is
left empty.
"""

import re
from collections.abc import Callable, Iterator

import libcst as cst

from memlint.fix.bindings import module_name
from memlint.fix.draft import MARK, Addition, Draft, Drop, NewImport, Reimport, Splice, Wrap
from memlint.fix.imports import earlier_import
from memlint.fix.joined_drafts import Pass, arranged, unique
from memlint.fix.new_expressions import is_label
from memlint.fix.spans import Tree
from memlint.fix.statement_edits import block_of, drop_statement, own_lines, placed, rank_behind
from memlint.source import Span


def merged(tree: Tree, drafts: list[Draft]) -> list[Splice]:
    """Return the splices that carry out ``drafts``, in order, none overlapping another."""
    work = Pass(tree, drafts)
    for node in work.touched():
        if not isinstance(node, cst.Import | cst.ImportFrom):
            work.splices += arranged(tree, node, work.added_to(node), work.removed_from(node))
    settle_imports(work)
    work.splices += _dropped(tree, work.drops, work.splices)
    for wrap in sorted(work.wraps, key=lambda one: one.span.end - one.span.start):
        work.splices = wrapped(tree, wrap, work.splices)
    return sorted(work.splices, key=lambda one: (one.span.start, one.span.end, one.rank))


def _dropped(tree: Tree, drops: list[Drop], splices: list[Splice]) -> list[Splice]:
    """Return the lines of removed statements; ``pass`` where nothing would be left of a block."""
    result: list[Splice] = []
    gone = {id(drop.node) for drop in drops}
    filled: set[int] = set()
    for drop in sorted(drops, key=lambda one: one.span):
        text = ""
        node = drop.node
        assert isinstance(node, cst.BaseSmallStatement | cst.BaseCompoundStatement)
        block = block_of(tree, node)
        if isinstance(block, cst.IndentedBlock) and id(block) not in filled:
            filled.add(id(block))
            left = any(id(_only(line)) not in gone for line in block.body)
            span = tree.span(block)
            inserted = any(
                splice.lines and drop.span.start <= splice.span.start <= span.end + 1
                for splice in splices
            )
            if not left and not inserted:
                text = f"{drop.indent}pass{tree.newline}"
        result.append(Splice(drop.span, text, lines=True))
    return result


def _only(line: cst.CSTNode) -> cst.CSTNode:
    """The statement of a line that holds one; else the line itself, which cannot be removed."""
    if isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1:
        return line.body[0]
    return line


# -- lines under a header --------------------------------------------------------------------------
# They go one level deeper (``with torch.no_grad():``).

_LINE = re.compile(r"\r\n|\r|\n")


def wrapped(tree: Tree, wrap: Wrap, splices: list[Splice]) -> list[Splice]:
    """``splices``, and those that put the lines of ``wrap`` one level deeper with them."""
    header = f"{wrap.indent}{wrap.header}{tree.newline}"
    return [
        *(_deeper(tree, splice) if _is_inside(wrap, splice) else splice for splice in splices),
        Splice(Span(wrap.span.start, wrap.span.start), header, rank=1, lines=True),
        *(
            Splice(Span(start, start), tree.indent, rank=2)
            for start in _lines_to_indent(tree, wrap.span, splices)
        ),
    ]


def _is_inside(wrap: Wrap, splice: Splice) -> bool:
    """True if what a splice writes comes to stand under the header."""
    before = splice.span == (wrap.span.start, wrap.span.start) and splice.rank <= 0
    behind = splice.span.start == wrap.span.end
    return wrap.span.contains(splice.span) and not before and not behind


def _deeper(tree: Tree, splice: Splice) -> Splice:
    """Return the splice with the lines of its text one level deeper."""
    text = _LINE.sub(lambda match: match.group() + tree.indent, splice.text)
    starts_line = splice.span.start == splice.span.end == tree.line_start(splice.span.start)
    if starts_line and not _LINE.search(splice.text[-2:]):
        # It stands before the first character of a line that will be indented, too.
        return Splice(splice.span, text, 4, splice.lines)
    if starts_line or (splice.lines and text):
        text = tree.indent + text.removesuffix(tree.indent)
    return Splice(splice.span, text, splice.rank, splice.lines)


def _lines_to_indent(tree: Tree, region: Span, splices: list[Splice]) -> Iterator[int]:
    """Where lines with code begin: no blank ones, none in strings, none written anew."""
    strings = [*map(tree.span, tree.nodes(cst.SimpleString))]
    strings += map(tree.span, tree.nodes(cst.FormattedString))
    strings = [span for span in strings if region.overlaps(span)]
    replaced = [splice.span for splice in splices if splice.span.start < splice.span.end]
    start = region.start
    while start < region.end:
        end = tree.line_end(start)
        blank = not tree.data[start:end].strip()
        in_string = any(span.start < start < span.end for span in strings)
        in_splice = any(
            span.start < start < span.end or (span.start == start and span.end >= end)
            for span in replaced
        )
        if not (blank or in_string or in_splice):
            yield start
        start = end


# -- imports ---------------------------------------------------------------------------------------
# Several fixes may take names from one statement, add names to it, or move them to another module:
# all that they do to it is laid out once, when it is known which names are still used.

_NAME_IN_STRING = re.compile(r"[\w.\[\]]+(?:(?:, ?| ?\| ?)[\w.\[\]]+)*")


def settle_imports(work: Pass) -> None:
    """Add to the splices of a pass those of its imports."""
    gone = [splice.span for splice in work.splices] + [drop.span for drop in work.drops]
    texts = [MARK.sub("", splice.text) for splice in work.splices]

    def used(name: str) -> bool:
        return _used(work.tree, name, gone, texts)

    _unimport(work, used)
    work.splices += _reimport(work, used)
    for node in work.touched():
        if isinstance(node, cst.ImportFrom):
            _lay_out(work, node)
    work.splices += _new_lines(work.tree, work.new_imports)


def _lay_out(work: Pass, statement: cst.ImportFrom) -> None:
    """The names of a statement as the pass leaves them; the statement goes with the last."""
    added, removed = work.added_to(statement), work.removed_from(statement)
    assert not isinstance(statement.names, cst.ImportStar)
    if added or len(removed) < len(statement.names):
        work.splices += arranged(work.tree, statement, added, dict.fromkeys(removed, 0))
        return
    scratch = Draft(work.tree)
    drop_statement(scratch, statement)
    work.splices += scratch.splices
    work.drops += scratch.drops


def _used(tree: Tree, name: str, gone: list[Span], texts: list[str]) -> bool:
    """True if ``name`` is still referred to when ``gone`` has become ``texts``."""
    word = re.compile(rf"\b{re.escape(name)}\b")
    if any(word.search(text) for text in texts):
        return True
    for node in tree.nodes(cst.Name):
        if node.value == name and not is_label(tree, node):
            span = tree.span(node)
            if not any(region.contains(span) for region in gone):
                return True
    # ``__all__`` and annotations name things in strings.
    return any(
        name in node.value
        and _NAME_IN_STRING.fullmatch(node.raw_value)
        and word.search(node.raw_value)
        for node in tree.nodes(cst.SimpleString)
    )


def _unimport(work: Pass, used: Callable[[str], bool]) -> None:
    for draft in work.drafts:
        for unimport in draft.unimports:
            # A name that the same fix imports from elsewhere is no use of the old import.
            replaced = unimport.bound in draft.names.values()
            if unimport.unless_used and not replaced and used(unimport.bound):
                continue
            assert not isinstance(unimport.statement.names, cst.ImportStar)
            index = next(
                at for at, alias in enumerate(unimport.statement.names) if alias is unimport.alias
            )
            work.removals[unimport.statement, index] = 0


def _reimport(work: Pass, used: Callable[[str], bool]) -> list[Splice]:
    """Names that come from another module now: in their statement where they can, else apart."""
    tree = work.tree
    splices: list[Splice] = []
    requests = unique(reimport for draft in work.drafts for reimport in draft.reimports)
    for one in requests:
        statement, clause = one.statement, _clause(one, one.explicit or used(one.bound))
        assert not isinstance(statement.names, cst.ImportStar)
        alias = tree.span(statement.names[one.index])
        if one.new_module == module_name(statement):
            splices.append(Splice(alias, clause))
        elif _moves_as_a_whole(work, one, requests):
            splices.append(Splice(alias, clause))
            splices.append(Splice(_module_span(tree, statement), one.new_module))
        else:
            work.removals[statement, one.index] = 0
            _import_apart(work, one, clause)
    return unique(splices)


def _moves_as_a_whole(work: Pass, request: Reimport, requests: list[Reimport]) -> bool:
    """True if all that a statement imports comes from the same other module now.

    A statement that another fix adds a name to stays what it is.
    """
    statement = request.statement
    assert not isinstance(statement.names, cst.ImportStar)
    here = [one for one in requests if one.statement is statement]
    return (
        bool(request.new_module)
        and len({one.new_module for one in here}) == 1
        and len(statement.names) == len(here)
        and not work.added_to(statement)
        and earlier_import(work.tree, statement, request.new_module) is None
    )


def _import_apart(work: Pass, request: Reimport, clause: str) -> None:
    """Import what left its statement: in an earlier one, or on a line of its own behind it."""
    tree, module = work.tree, request.new_module
    target = earlier_import(tree, request.statement, module) if module else None
    if target is None:
        span, indent = own_lines(tree, request.statement)
        # Without a module the name is one itself: ``import new_name``.
        line = (module, clause) if module else (clause, None)
        work.new_imports.append(NewImport(span.end, indent, *line))
    elif clause not in _clauses(tree, target):
        work.additions.append(Addition(target, clause, clause))


def _clause(request: Reimport, used: bool) -> str:
    if request.bound == request.new_name or not used:
        return request.new_name
    return f"{request.new_name} as {request.bound}"


def _clauses(tree: Tree, statement: cst.ImportFrom) -> set[str]:
    assert not isinstance(statement.names, cst.ImportStar)
    return {tree.slice(tree.span(alias)) for alias in statement.names}


def _module_span(tree: Tree, statement: cst.ImportFrom) -> Span:
    parts = [tree.outer(dot) for dot in statement.relative]
    if statement.module is not None:
        parts.append(tree.outer(statement.module))
    return Span(parts[0].start, parts[-1].end)


def _new_lines(tree: Tree, lines: list[NewImport]) -> list[Splice]:
    """One splice for each place at which import lines are inserted."""
    result: list[Splice] = []
    for offset in sorted({line.offset for line in lines}):
        here = [line for line in lines if line.offset == offset]
        text = _statements(here, tree.newline)
        if any(one.blank_before for one in here):
            following = tree.slice(Span(offset, tree.line_end(offset)))
            code = following.strip() and not re.match(r"\s*(?:import|from)\b", following)
            text = tree.newline + text + (tree.newline if code else "")
        first = any(one.blank_after for one in here)
        if first:
            text += tree.newline
        rank = -1 if first else rank_behind(here[0].indent) - 1
        result.append(placed(tree, offset, text, rank))
    return result


def _statements(lines: list[NewImport], newline: str) -> str:
    """Return the import statements of one place, sorted; the names of one module in one of them."""
    indent = lines[0].indent
    plain = sorted({line.module for line in lines if line.clause is None})
    text = "".join(f"{indent}import {module}{newline}" for module in plain)
    for module in sorted({line.module for line in lines if line.clause is not None}):
        clauses = sorted({line.clause for line in lines if line.module == module and line.clause})
        text += f"{indent}from {module} import {', '.join(clauses)}{newline}"
    return text
