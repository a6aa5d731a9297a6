"""Expressions in place: replace one, let a call call something else, rename an attribute."""

from dataclasses import replace

import libcst as cst

from memlint.fix.draft import Draft
from memlint.fix.keywords import line_indent, opening, refuse_comments
from memlint.fix.new_expressions import (
    binding,
    check_f_string,
    fitted,
    in_f_string,
    parse_source,
    reindented,
    required,
    substituted,
)
from memlint.fix.outcome import FixError
from memlint.fix.spans import Tree
from memlint.source import Span
from memlint.source.edits import AddParameter, RenameAttribute, ReplaceCallee, ReplaceExpression


def _replace(draft: Draft, node: cst.BaseExpression, span: Span, source: str, least: int) -> None:
    tree = draft.tree
    callee = isinstance(tree.parent(node), cst.Call)
    source = fitted(substituted(source, draft.names), least, callee=callee)
    text = reindented(
        source, line_indent(tree, span.start), indent=tree.indent, newline=tree.newline
    )
    if tree.slice(span) != text:
        check_f_string(tree, node, text)
        refuse_comments(tree, span)
    # ``return(x)`` and ``not(x)`` need a space once the parenthesis is gone.
    if span.start and text[:1].isidentifier():
        before = tree.data[span.start - 1 : span.start].decode("utf-8", "replace")
        if before.isidentifier() or before.isdigit():
            text = f" {text}"
    after = tree.data[span.end : span.end + 1].decode("utf-8", "replace")
    if text[-1:].isidentifier() or text[-1:].isdigit():
        text += " " if after.isidentifier() or after.isdigit() else ""
    draft.splice(span, text)
    draft.claim(span, "expression", span, payload=source)
    draft.regions.append(span)


def replace_expression(draft: Draft, edit: ReplaceExpression) -> None:
    tree = draft.tree
    node = tree.find(edit.span, cst.BaseExpression)
    if not isinstance(node, cst.BaseExpression):
        raise FixError("there is no expression at the place of the fix")
    if _is_mere_name(tree, node):
        raise FixError("the name at the place of the fix is no expression")
    if isinstance(node, cst.GeneratorExp) and not node.lpar:
        # The only argument of a call, which shares the call's parentheses.
        _replace(draft, node, tree.span(node), edit.source, 2)
    elif isinstance(node, cst.Tuple | cst.GeneratorExp) and edit.span != tree.span(node):
        # The span takes the parentheses of the tuple in: what replaces it stands without them.
        least = 0 if len(node.lpar) > 1 else _slot(draft, node)
        _replace(draft, node, edit.span, edit.source, least)
    else:
        _replace(draft, node, edit.span, edit.source, _required_of(tree, node, edit.source))


def _is_mere_name(tree: Tree, node: cst.BaseExpression) -> bool:
    """True if it only names something: an attribute, a keyword, what is imported or defined."""
    parent = tree.parent(node)
    if not isinstance(node, cst.Name):
        return False
    if isinstance(parent, cst.Attribute):
        return parent.attr is node
    if isinstance(parent, cst.Arg):
        return parent.keyword is node
    return isinstance(parent, cst.ImportAlias | cst.AsName | cst.FunctionDef | cst.ClassDef)


def _required_of(tree: Tree, node: cst.BaseExpression, source: str) -> int:
    """Return how tightly ``source`` has to bind in the place of ``node``."""
    least = required(tree, node)
    loose = binding(parse_source(source)[1]) < 2 and not node.lpar and least == 0
    if loose and not isinstance(tree.parent(node), cst.Assign | cst.Return | cst.Expr):
        return 2
    return least


def _slot(draft: Draft, node: cst.Tuple | cst.GeneratorExp) -> int:
    """Return the binding that the place of ``node`` requires, without its parentheses."""
    tree = draft.tree
    parent = tree.parent(node)
    if isinstance(parent, cst.Assign | cst.Return | cst.Expr):
        return 0
    if isinstance(parent, cst.Arg | cst.Element | cst.DictElement | cst.Index | cst.Param):
        return 2
    return 20


def replace_callee(draft: Draft, edit: ReplaceCallee) -> None:
    tree = draft.tree
    node = tree.find(edit.call, cst.Call)
    if not isinstance(node, cst.Call):
        raise FixError("there is no call at the place of the fix")
    span = tree.span(node.func)
    _replace(draft, node.func, span, edit.source, required(tree, node.func))
    # What another fix adds is an argument of the callee that is there now: it waits.
    claimed = Span(span.start, opening(tree, node).end + 1)
    draft.claims[-1] = replace(draft.claims[-1], span=claimed, nests=True)


def rename_attribute(draft: Draft, edit: RenameAttribute) -> None:
    tree = draft.tree
    node = tree.find(edit.span, cst.Attribute)
    if not isinstance(node, cst.Attribute):
        raise FixError("there is no attribute at the place of the fix")
    if in_f_string(tree, node) and not edit.new.isidentifier():
        raise FixError(f"{edit.new!r} is no name")
    span = tree.span(node.attr)
    draft.splice(span, edit.new)
    draft.claim(span, "attribute", node, payload=edit.new)
    draft.regions.append(span)


# -- parameters of definitions ---------------------------------------------------------------------


def add_parameter(draft: Draft, edit: AddParameter) -> None:
    tree = draft.tree
    node = tree.find(edit.definition, cst.FunctionDef)
    if not isinstance(node, cst.FunctionDef):
        raise FixError("there is no function at the place of the fix")
    parameters = node.params
    taken = {one.name.value for one in (*parameters.posonly_params, *parameters.params)}
    taken |= {one.name.value for one in parameters.kwonly_params}
    if edit.name in taken:
        return
    positional = (*parameters.posonly_params, *parameters.params)
    if not positional or not parameters.params:
        raise FixError("the function has no parameter to put it behind")
    last = positional[-1]
    written: cst.CSTNode = last.name
    if last.default is not None:
        written = last.default
    elif last.annotation is not None:
        written = last.annotation.annotation
    end = tree.outer(written).end
    gap = " "
    if len(positional) > 1:
        start = tree.span(last).start
        line = tree.slice(Span(tree.line_start(start), start))
        if not line.strip(" \t\f"):
            # One parameter a line.
            gap = tree.newline + line
    text = f",{gap}{edit.name}={fitted(substituted(edit.default, draft.names), 2)}"
    place = Span(end, end)
    draft.splice(place, text)
    draft.claim(place, "parameter", node, edit.name, payload=edit.default, exclusive=False)
    draft.regions.append(tree.span(node))
