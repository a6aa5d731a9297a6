"""The layers of a model of the script's own, run so that backward computes them again.

``layer(hidden)`` in a loop over layers becomes ``checkpoint(layer, hidden, use_reentrant=False)``,
a stack in one ``Sequential`` goes through ``checkpoint_sequential``. Both keep the random numbers,
and do nothing where no gradient is wanted.
"""

from memlint.engine.definitions import keeps_state
from memlint.engine.growth import binds_as_target
from memlint.engine.modes import module_root
from memlint.engine.nodes import CallNode, Definition, called_name, calls_in, holder_of
from memlint.engine.project import is_elsewhere
from memlint.engine.values import Object, Value, options
from memlint.runs.references import reference_to
from memlint.runs.run import Change
from memlint.script.loop_models import LoopModel
from memlint.script.model import Script
from memlint.source.edits import Edit, ReplaceExpression

_CHECKPOINT = "torch.utils.checkpoint.checkpoint"
_SEQUENTIAL = "torch.utils.checkpoint.checkpoint_sequential"
_ADVICE = (
    "Run each layer as `torch.utils.checkpoint.checkpoint(layer, hidden, use_reentrant=False)`"
)
_STACK = "torch.nn.Sequential"
# Layers that count their passes.
_COUNTING = ("BatchNorm", "spectral_norm")


def recomputed_layers(script: Script, model: LoopModel) -> Change:
    """The change that checkpoints the layers of a model, where its class is in this file."""
    changed = {"checkpointing": "full"}
    methods = _methods(script, model)
    passes = [call for one in methods for call in calls_in(one) if _runs_layers(script, one, call)]
    parts = [_checkpointed(script, call) for call in passes]
    if not parts or None in parts:
        return Change(changed, f"{_ADVICE}, where its class runs them one after the other")
    # What a layer keeps may be another after a second pass.
    kept = any(map(keeps_state, script.definitions_of("forward")))
    if kept or script.may_use(*_COUNTING):
        return Change(changed, f"{_ADVICE}, where a second pass leaves what they keep as it was")
    edits = dict.fromkeys(edit for part in parts for edit in part or ())
    doubt = _doubt(script, methods)
    return Change(changed, f"{_ADVICE}, {doubt}" if doubt else _ADVICE, tuple(edits), bool(doubt))


def _methods(script: Script, model: LoopModel) -> list[Definition]:
    root = module_root(model.runs[0].module)
    if not isinstance(root, Object) or root.cls is None:
        return []
    return [one for one in script.functions if script.class_of(one) is root.cls.node]


def _runs_layers(script: Script, method: Definition, call: CallNode) -> bool:
    """True for ``layer(hidden)`` in a loop over modules, and ``self.layers(hidden)``."""
    if method.name != "forward" or not call.args:
        return False
    if holder_of(call) is None:
        name = called_name(call)
        loops = script.flow.loops_around(call)
        return any(
            binds_as_target(script, loop, name) and "self." in script.text(loop).partition(":")[0]
            for loop in loops
        )
    made = next((one for one in options(script.value(call.func)) if isinstance(one, Object)), None)
    if (
        made is None
        or made.node is None
        or made.type != _STACK
        or call.keywords
        or len(call.args) != 1
    ):
        return False
    # ``Sequential(*layers)`` is as long as the script says; others are parts of a layer.
    return script.text(made.node).partition("(")[2].lstrip().startswith("*")


def _checkpointed(script: Script, call: CallNode) -> tuple[Edit, ...] | None:
    """Edits that checkpoint one pass; None where torch's names are taken."""
    stack = holder_of(call) is not None
    named = reference_to(script, _SEQUENTIAL if stack else _CHECKPOINT, call)
    if named is None:
        return None
    layer = script.text(call.func)
    given = [layer, f"len({layer})"] if stack else [layer]
    given += map(script.text, call.args)
    given += [f"{o.arg}={script.text(o.value)}" for o in call.keywords if o.arg]
    given += [f"**{script.text(o.value)}" for o in call.keywords if not o.arg]
    source = f"{named.text}({', '.join(given)}, use_reentrant=False)"
    return (ReplaceExpression(script.span(call), source), *named.edits)


def _doubt(script: Script, methods: list[Definition]) -> str:
    """Why a second pass of a layer might be another than the first; empty where it is not."""
    makers = [one for one in methods if one.name != "forward"]
    made = [call for one in makers for call in calls_in(one) if called_name(call)[:1].isupper()]
    if not all(map(_is_in_sight, map(script.value, made))):
        return "if a second pass of a layer does what the first did"
    return "if it compiles with that" if script.is_named("compile") else ""


def _is_in_sight(made: Value) -> bool:
    """True if what a call makes is of a class of this file, or of torch."""
    return all(
        isinstance(one, Object)
        and (
            (one.type or "").startswith("torch.")
            if one.cls is None
            else not is_elsewhere(one.cls.node)
        )
        for one in options(made)
    )
