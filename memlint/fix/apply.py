"""Turn edits into new text: one parse, one pass over positions, one set of splices.

The tree says where things are and how they are laid out; what is written are splices into the
file's own bytes. Bytes that no edit names are copied, never printed anew, so they cannot change.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import libcst as cst

from memlint.fix import imports, items, keywords, replacements, statement_edits
from memlint.fix.bindings import places_of
from memlint.fix.draft import Draft, Splice
from memlint.fix.merge import merged
from memlint.fix.notes import placed_notes
from memlint.fix.outcome import Applied, FixError, TextEdit
from memlint.fix.spans import Tree, parse
from memlint.fix.splicing import spliced
from memlint.fix.width import within_width
from memlint.source import Span
from memlint.source import edits as kinds

_OURS = "memlint's fix went wrong and was thrown away, please report this"

_MAKERS: dict[type[Any], Callable[[Draft, Any], None]] = {
    kinds.SetKeyword: keywords.set_keyword,
    kinds.RemoveKeyword: keywords.remove_keyword,
    kinds.RenameKeyword: keywords.rename_keyword,
    kinds.SetItem: items.set_item,
    kinds.RemoveItem: items.remove_item,
    kinds.RenameItem: items.rename_item,
    kinds.ReplaceExpression: replacements.replace_expression,
    kinds.ReplaceCallee: replacements.replace_callee,
    kinds.RenameAttribute: replacements.rename_attribute,
    kinds.RemoveImport: imports.remove_import,
    kinds.RenameImport: imports.rename_import,
    kinds.InsertStatement: statement_edits.insert_statement,
    kinds.RemoveStatement: statement_edits.remove_statement,
    kinds.WrapStatements: statement_edits.wrap_statements,
    kinds.AddDecorator: statement_edits.add_decorator,
    kinds.AddParameter: replacements.add_parameter,
}


def _place(edit: kinds.Edit) -> tuple[Span, int, str] | None:
    """Return the place of the new source of ``edit``, the byte where it starts, and the source."""
    match edit:
        case (
            kinds.SetKeyword(call=span, source=source)
            | kinds.ReplaceCallee(call=span, source=source)
        ):
            return span, span.start, source
        case (
            kinds.SetItem(mapping=span, source=source)
            | kinds.ReplaceExpression(span=span, source=source)
        ):
            return span, span.start, source
        case kinds.InsertStatement(anchor=span, source=source, where=where):
            return span, span.start if where == "before" else span.end, source
        case kinds.WrapStatements(first=span, header=header):
            return span, span.start, header
        case (
            kinds.AddDecorator(definition=span, source=source)
            | kinds.AddParameter(definition=span, default=source)
        ):
            return span, span.start, source
    return None


def _first_span(edits: Sequence[kinds.Edit]) -> int:
    places = [
        value.start
        for edit in edits
        for value in (getattr(edit, name) for name in edit._fields)
        if isinstance(value, Span)
    ]
    return min(places, default=0)


def draft(tree: Tree, edits: Sequence[kinds.Edit]) -> Draft:
    """What ``edits`` do; FixError if one of them cannot be done or two contradict each other."""
    result = Draft(tree)
    leaving = imports.leaving(tree, tuple(edits))
    for edit in edits:
        if isinstance(edit, kinds.AddImport):
            name = re.compile(rf"(?<![\w.]){re.escape(edit.name or edit.module)}\b")
            nodes = []
            for place in map(_place, edits):
                if place is not None and name.search(place[2]):
                    node = tree.find(place[0], cst.CSTNode)
                    if node is None:
                        raise FixError("there is no code at the place of the fix")
                    nodes.append((node, place[1]))
            imports.add_import(result, edit, places_of(tree, nodes), leaving)
    for edit in edits:
        if not isinstance(edit, kinds.AddImport):
            _MAKERS[type(edit)](result, edit)
    for removal in result.carry_comments():
        inside = [note.text for note in removal.comments if note.inside]
        if inside:
            statement_edits.insert_comments(result, removal.node, inside)
    if result.contradicts_itself():
        raise FixError("its edits overlap each other")
    return result


def _attempt(tree: Tree, drafts: list[Draft]) -> tuple[list[Splice], Tree]:
    """Return the splices of ``drafts`` and the new tree; FixError if the new text fails a gate."""
    try:
        plain = placed_notes(tree.data, merged(tree, drafts))
        splices = within_width(tree.data, plain)
        try:
            return splices, _gated(tree, drafts, splices)
        except FixError:
            if splices == plain:
                raise
            return plain, _gated(tree, drafts, plain)
    except AssertionError as error:
        raise FixError(f"splices overlap ({error})") from error


def _gated(tree: Tree, drafts: list[Draft], splices: list[Splice]) -> Tree:
    text = spliced(tree.data, splices).decode("utf-8")
    return checked(tree, text, drafts, splices) if splices else tree


def apply_to(tree: Tree, fixes: Sequence[Sequence[kinds.Edit]]) -> tuple[Applied, Tree]:
    """Carry out ``fixes``, in any order, each as a whole or not at all; the answer has the tree of
    the new text, which parses, keeps comments and differs only where edits say so."""
    order = sorted(range(len(fixes)), key=lambda at: (_first_span(fixes[at]), repr(fixes[at])))
    accepted: dict[int, Draft] = {}
    refused: dict[int, str] = {}
    for number in order:
        try:
            wanted = draft(tree, fixes[number])
        except FixError as error:
            refused[number] = str(error)
            continue
        if not wanted.conflicts(accepted.values()):
            accepted[number] = wanted

    try:
        splices, after = _attempt(tree, list(accepted.values()))
    except FixError:
        # One of them is at fault. Alone, each shows whether it is the one.
        for number in list(accepted):
            try:
                _attempt(tree, [accepted[number]])
            except FixError as error:
                refused[number] = f"{_OURS}: {error}"
                del accepted[number]
        try:
            splices, after = _attempt(tree, list(accepted.values()))
        except FixError:
            # Only together do they fail: one a pass is slow and safe.
            accepted = dict([*accepted.items()][:1])
            splices, after = _attempt(tree, list(accepted.values()))

    return (
        Applied(
            text=after.data.decode("utf-8"),
            applied=tuple(sorted(accepted)),
            refused=refused,
            edits=tuple(TextEdit(splice.span, splice.text) for splice in splices),
        ),
        after,
    )


def previews(text: str, fixes: Sequence[Sequence[kinds.Edit]]) -> tuple[Applied, ...]:
    """Return each of ``fixes`` as if it were the only one; the file is parsed once for all.

    Position 0 of ``applied`` or ``refused`` of each answer stands for its fix. The gates that a
    file must pass before it is written are left to ``apply_to``.
    """
    if not fixes:
        return ()
    try:
        tree = parse(text, fixes)
    except FixError as error:
        return (Applied(text, refused={0: f"the file cannot be rewritten: {error}"}),) * len(fixes)
    result = []
    for edits in fixes:
        try:
            splices = placed_notes(tree.data, merged(tree, [draft(tree, edits)]))
            splices = within_width(tree.data, splices)
            new = spliced(tree.data, splices).decode("utf-8", "surrogatepass")
        except (FixError, AssertionError) as error:
            result.append(Applied(text, refused={0: str(error)}))
            continue
        changes = tuple(TextEdit(splice.span, splice.text) for splice in splices)
        result.append(Applied(new, applied=(0,), edits=changes))
    return tuple(result)


# -- gates -----------------------------------------------------------------------------------------
# The new text parses with libcst, prints as it is, and parses or compiles on the running
# interpreter if the old text did. Every comment that no edit removed is still there. Nothing
# changed outside of what the edits name. A failure is our own fault and is reported as such.

_NEXT_COMMENT = re.compile(r"  (?=#)")


def _named(tree: Tree, draft: Draft) -> list[Span]:
    """Return the whole lines of what the edits of ``draft`` name."""
    return [
        Span(tree.line_start(span.start), tree.line_end(max(span.start, span.end - 1)))
        for span in draft.regions
    ]


def _joined(spans: Iterable[Span]) -> list[Span]:
    """``spans`` in order, those that touch made one: lines that follow each other are one place."""
    joined: list[Span] = []
    for span in sorted(spans):
        if joined and span.start <= joined[-1].end:
            joined[-1] = Span(joined[-1].start, max(joined[-1].end, span.end))
        else:
            joined.append(span)
    return joined


def checked(tree: Tree, text: str, drafts: list[Draft], splices: list[Splice]) -> Tree:
    """Return the tree of the new ``text``; FixError if it may not replace that of ``tree``."""
    after = parse(text)
    if after.compiles < tree.compiles:
        raise FixError("the new text does not parse")
    if not _keeps_to_edits(tree, drafts, splices):
        raise FixError("a line would change that no edit names")
    if _loses_comments(tree, after, drafts):
        raise FixError("a comment would be lost")
    return after


def _keeps_to_edits(tree: Tree, drafts: list[Draft], splices: list[Splice]) -> bool:
    """True if all that changes is named by an edit; whole lines may be inserted anywhere."""
    named = _joined(span for draft in drafts for span in _named(tree, draft))
    return all(
        (splice.lines and splice.span.start == splice.span.end)
        or any(region.contains(splice.span) for region in named)
        for splice in splices
    )


def _loses_comments(tree: Tree, after: Tree, drafts: list[Draft]) -> bool:
    """True if a comment is missing that no edit takes away."""
    going = [span for draft in drafts for span in draft.comments]
    kept = Counter(
        comment
        for comment, place in tree.comments()
        if not any(span.contains(place) for span in going)
    )
    there: Counter[str] = Counter()
    for comment, _ in after.comments():
        there[comment] += 1
        # Comments of several options may share a line.
        parts = _NEXT_COMMENT.split(comment)
        there.update(parts if len(parts) > 1 else ())
    return bool(kept - there)
