"""Parameters of function definitions: add one, in the layout that the others have."""

from __future__ import annotations

import libcst as cst

from memlint.fix.draft import Draft
from memlint.fix.new_expressions import fitted, substituted
from memlint.fix.outcome import FixError
from memlint.source import Span
from memlint.source.edits import AddParameter


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
