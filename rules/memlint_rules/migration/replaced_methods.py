"""What takes the place of a method or an attribute that is gone."""

import ast

from memlint.rule import Call, Fix, Script, advise, edits, facts, fix, successors

_TARGET_MODE = "as_target_tokenizer"


def method_fix(
    script: Script, node: ast.Attribute, replacement: successors.Successor
) -> Fix | None:
    """Return what takes its place; None where the class may have it."""
    call = next((call for call in script.method_calls(node.attr) if call.node.func is node), None)
    answer = None
    if isinstance(replacement, successors.Replace):
        new = replacement.qualname.rpartition(".")[2]
        if new == node.attr:
            # A function of the library by that name: the class may well have taken it over.
            return None
        if node.attr != _TARGET_MODE:
            answer = _replaced(script, node, call, replacement, new)
    if node.attr == _TARGET_MODE:
        answer = _target_mode(script, node, call)
    return answer or advise(replacement.note or f"Do without `{node.attr}`")


def _replaced(
    script: Script,
    node: ast.Attribute,
    call: Call | None,
    replacement: successors.Replace,
    new: str,
) -> Fix | None:
    if new != "__call__":
        edit = edits.RenameAttribute(script.span(node), new)
        return fix(f"Use `{new}`", (edit,), unsafe=not replacement.safe)
    if call is None:
        return None
    base = script.text(node.value)
    renamed = (
        edits.RenameKeyword(call.span, old, keyword)
        for old, keyword in replacement.arguments
        if keyword is not None and call.keyword_node(old) is not None
    )
    changes: tuple[edits.Edit, ...] = (edits.ReplaceCallee(call.span, base), *renamed)
    return fix(f"Call `{base}(...)`", changes, unsafe=not replacement.safe)


def _target_mode(script: Script, node: ast.Attribute, call: Call | None) -> Fix | None:
    """What is tokenized ``with tokenizer.as_target_tokenizer()`` becomes a ``text_target``."""
    around = script.enclosing(node, ast.With)
    if call is None or not isinstance(around, ast.With) or len(around.items) != 1:
        return None
    if around.items[0].context_expr is not call.node or around.items[0].optional_vars is not None:
        return None
    texts = facts.texts_given_to(script, script.text(node.value), around)
    if not texts or "#" in script.text(around):
        return None
    first, last = script.span(around.body[0]), script.span(around.body[-1])
    written = script.source.data[first.start : last.end]
    for at in sorted((script.span(text).start - first.start for text in texts), reverse=True):
        written = written[:at] + b"text_target=" + written[at:]
    from textwrap import dedent  # where it is needed: its patterns take long to compile

    source = dedent((b" " * around.body[0].col_offset + written).decode())
    place = script.span(around)
    return fix(
        f"Write `{script.text(node.value)}(text_target=...)`",
        (edits.InsertStatement(place, source, "before"), edits.RemoveStatement(place)),
    )
