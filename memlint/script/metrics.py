"""What a ``compute_metrics`` function does with the predictions that it is given."""

from __future__ import annotations

from memlint.engine.growth import own_object
from memlint.engine.nodes import CallNode, Definition, Expression, arguments_of
from memlint.engine.usage import Usage, Way
from memlint.engine.values import Function
from memlint.script.calls import Host, Trainer
from memlint.source.record import NamedTuple

_LAST = (-1, 2)
_PAIR = 2
_DECODERS = ("decode", "batch_decode")


class Metric(NamedTuple):
    """A metric function of the script.

    argmax: the call of ``np.argmax`` over the last dimension and what it reads, where that is all
        that the function reads of the predictions. decodes: whether it makes text of ids.
    """

    node: Definition
    argmax: tuple[CallNode, Expression] | None
    decodes: bool


def metric_of(script: Host, trainer: Trainer) -> Metric | None:
    """The ``compute_metrics`` of a trainer; None where it is no function of the script."""
    function = trainer.setting("compute_metrics").raw
    node = script.definition(function.node) if isinstance(function, Function) else None
    if node is None:
        return None
    reads = _reads(script, node) if len(node.args.args) == 1 else []
    use = script.use(reads[0]) if len(reads) == 1 else None
    argmax = (use.call, reads[0]) if use is not None and _is_argmax(script, use) else None
    decodes = any(script.function(one.node) is node for one in script.method_calls(*_DECODERS))
    return Metric(node, argmax, decodes)


def _reads(script: Host, metric: Definition) -> list[Expression]:
    """Reads of the predictions in ``logits, labels = eval_pred`` or ``eval_pred.predictions``;
    none where the pair goes somewhere else as a whole."""
    found: list[Expression] = []
    for use in script.flow.uses(own_object(metric), metric):
        what = script.use(use)
        if what.way is Way.READ and what.name in ("predictions", "label_ids"):
            found += [what.expression] if what.name == "predictions" else []
        elif what.way is Way.STORED and len(what.places) == _PAIR and what.places[0].unpacked:
            names = script.flow.uses(what.places[0].name, metric)
            if any(script.flow.definitions(one) != (what.around,) for one in names):
                # ``logits = np.argmax(logits)`` binds the name again.
                return []
            found += names
        else:
            return []
    return found


def _is_argmax(script: Host, use: Usage) -> bool:
    """``np.argmax(read, axis=-1)``."""
    if use.way is not Way.GIVEN or use.position != 0:
        return False
    axes = arguments_of(use.call)[1:]
    argmax = script.name(use.call.func) in ("numpy.argmax", "np.argmax")
    return argmax and len(axes) == 1 and script.python(axes[0]) in _LAST
