"""What a ``compute_metrics`` function does with the predictions that it is given."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from memlint.engine.values import Function
from memlint.source.record import NamedTuple

if TYPE_CHECKING:
    from memlint.script.calls import Trainer
    from memlint.script.model import Script

_LAST = (-1, 2)
_DECODERS = ("decode", "batch_decode")


class Metric(NamedTuple):
    """A metric function of the script.

    argmax: the call of ``np.argmax`` over the last dimension and what it reads, where that is all
        that the function reads of the predictions. decodes: whether it makes text of ids.
    """

    node: ast.FunctionDef
    argmax: tuple[ast.Call, ast.expr] | None
    decodes: bool


def metric_of(script: Script, trainer: Trainer) -> Metric | None:
    """The ``compute_metrics`` of a trainer; None where it is no function of the script."""
    function = trainer.setting("compute_metrics").raw
    if not isinstance(function, Function) or not isinstance(function.node, ast.FunctionDef):
        return None
    node = function.node
    reads = _reads(script, node)
    call = script.parent(reads[0]) if len(reads) == 1 else None
    argmax = None
    if isinstance(call, ast.Call) and _is_argmax(script, call, reads[0]):
        argmax = (call, reads[0])
    decodes = any(script.function(one.node) is node for one in script.method_calls(*_DECODERS))
    return Metric(node, argmax, decodes)


def _reads(script: Script, metric: ast.FunctionDef) -> list[ast.expr]:
    """Reads of the predictions in ``logits, labels = eval_pred`` or ``eval_pred.predictions``;
    none where the pair goes somewhere else as a whole."""
    if len(metric.args.args) != 1:
        return []
    found: list[ast.expr] = []
    for use in script.flow.uses(metric.args.args[0].arg, metric):
        match script.parent(use):
            case ast.Attribute(attr="predictions") as read:
                found.append(read)
            case ast.Attribute(attr="label_ids"):
                pass
            case ast.Assign(targets=[ast.Tuple(elts=[ast.Name(id=name), ast.Name()])]) as unpacked:
                names = script.flow.uses(name, metric)
                if any(script.flow.definitions(one) != (unpacked,) for one in names):
                    # ``logits = np.argmax(logits)`` binds the name again.
                    return []
                found += names
            case _:
                return []
    return found


def _is_argmax(script: Script, call: ast.Call, read: ast.expr) -> bool:
    """``np.argmax(read, axis=-1)``."""
    if script.name(call.func) not in ("numpy.argmax", "np.argmax") or call.args[:1] != [read]:
        return False
    axes = [*call.args[1:], *(keyword.value for keyword in call.keywords)]
    return len(axes) == 1 and script.python(axes[0]) in _LAST
