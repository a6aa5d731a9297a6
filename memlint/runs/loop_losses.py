"""How the losses of a loop are computed without the logits of all positions: by a call of the
runtime, once the model is complete.

``fuse_causal_lm_loss`` serves the loss that a model computes itself, ``defer_logits`` what the
script computes from the logits: they are made tile by tile, as far as they are read.
"""

from __future__ import annotations

from memlint.engine.nodes import CallNode, call_itself
from memlint.engine.project import is_elsewhere
from memlint.flow.escapes import goes_out_of_sight
from memlint.runs.changes import together
from memlint.runs.references import reference_to
from memlint.runs.run import Change
from memlint.runs.runtime_calls import IF_TAKEN, call_on_model
from memlint.runs.trainer_batches import doubt_of_load
from memlint.script.called import Call
from memlint.script.forward_passes import Forward, all_forwards_of, are_of_one_model
from memlint.script.handwritten_losses import LossForm, TokenLoss, are_read_alone
from memlint.script.loaded_models import ModelFacts, is_language_model
from memlint.script.model import Script
from memlint.script.readers import leaves_logits, reads_unknown_logits
from memlint.script.reads import fields_read, forward_of
from memlint.source.edits import Edit, RemoveKeyword, ReplaceExpression, WrapStatements
from memlint.source.patterns import lazy_pattern

_FUSE = "memlint_runtime.fuse_causal_lm_loss"
_DEFER = "memlint_runtime.losses.defer_logits"
_HEAD_LOGITS = "memlint_runtime.losses.head_logits"
_REPLACED = lazy_pattern(r"\.(?:loss_function|forward)\s*=[^=]")
_SPARED = {"loss": "no_logits"}
_UNTESTED = "it builds on a newer transformers than the target's"
_IF_UNSEEN = "if nothing out of sight asks whether they are a tensor"
# What compiles a model, or puts it on several GPUs in one process, defers no logits.
_UNDEFERRABLE = ("compile", "DataParallel")


def fused_loss(script: Script, forward: Forward) -> Change:
    """What computes the loss of a pass that gets labels without the logits."""
    name = script.text(forward.node.func)
    if forward.reads_logits_alone:
        # A distillation, for instance, or a loss of the script's own.
        message = "Leave `labels` out: the logits are read, and this loss is not"
        written = forward.call.keyword_node("labels") and fields_read(script, forward) is not None
        removed = RemoveKeyword(forward.span, "labels")
        return Change(_SPARED, message, (removed,) if written else None)
    message = f"Call `fuse_causal_lm_loss({name})` of memlint_runtime before the loop"
    if forward.reads_logits:
        advice = f"{message}, and do without the logits that are read here: they are None then"
        losses = [one for one in script.token_losses if one.over_vocabulary]
        return _deferred(script, [forward.facts], losses, advice)
    if script.api.behaviour("runtime") != "tested":
        return Change(_SPARED, f"{message}; {_UNTESTED}")
    alone, unsure = _logits_wanted(script, forward)
    if not alone and forward.training is not True:
        return Change(_SPARED, f"{message}, with the model in training mode")
    arguments = "{}, fuse_evaluation=True" if alone else "{}"
    edits = call_on_model(script, _FUSE, forward.facts, arguments)
    if edits is not None:
        message = f"Call `fuse_causal_lm_loss({arguments.format(name)})` once the model is loaded"
    doubt = _doubt(script, forward.facts)
    if unsure and not doubt:
        doubt = "if nothing reads the logits of passes with labels: they are None then"
    return Change(_SPARED, f"{message}, {doubt}" if doubt else message, edits, bool(doubt))


def _logits_wanted(script: Script, forward: Forward) -> tuple[bool, bool]:
    """Whether no labelled pass of a model has its logits read, and whether one in training may."""
    unknown = reads_unknown_logits(script)
    reading = [
        one
        for one in all_forwards_of(script)
        if not one.own and one.labels is not False and are_of_one_model(one, forward)
        if not leaves_logits(script, one)
    ]
    unsure = any(one.training is not False and fields_read(script, one) is None for one in reading)
    return not reading and not unknown, unsure or unknown


def deferred_logits(script: Script, losses: list[TokenLoss], advice: str) -> Change:
    """What computes losses, written by hand, from logits that are made as far as they are read."""
    heads = _own_heads(losses)
    if heads:
        return _deferred_in_pass(script, heads, losses, advice)
    return _deferred(script, _models(script, losses), losses, advice)


def _own_heads(losses: list[TokenLoss]) -> list[CallNode]:
    """The calls of heads, in passes of the script's own, that make all logits; none where some are
    made otherwise."""
    found: dict[CallNode, None] = {}
    for tensor in (tensor for loss in losses for tensor in loss.logits):
        node = next((one.node for one in tensor.history() if one.operation == "head"), None)
        call = call_itself(node) if node is not None else None
        if call is None or is_elsewhere(call) or len(call.args) != 1 or call.keywords:
            return []
        found[call] = None
    return list(found)


def _deferred_in_pass(
    script: Script, heads: list[CallNode], losses: list[TokenLoss], advice: str
) -> Change:
    """``self.lm_head(x)`` made where it is read."""
    parts = [_head_logits(script, call) for call in heads]
    if _is_looked_at(script) or not _are_few_forms(script, losses) or None in parts:
        return Change(_SPARED, advice)
    edits = together(*parts) or ()
    message = f"Make the logits by `head_logits({', '.join(_parts(script, heads[0]))})`"
    return _told(message, _IF_UNSEEN * _may_be_read_more(script, losses), edits)


def _parts(script: Script, head: CallNode) -> tuple[str, str]:
    return script.text(head.func), script.text(head.args[0])


def _head_logits(script: Script, head: CallNode) -> tuple[Edit, ...] | None:
    named = reference_to(script, _HEAD_LOGITS, head)
    if named is None:
        return None
    source = f"{named.text}({', '.join(_parts(script, head))})"
    return (ReplaceExpression(script.span(head), source), *named.edits)


def _deferred(
    script: Script, models: list[ModelFacts], losses: list[TokenLoss], advice: str
) -> Change:
    loads = [load for facts in models for load in facts.loads]
    looked_at = _is_looked_at(script) or not all(map(is_language_model, loads))
    if looked_at or not _are_few_forms(script, losses):
        return Change(_SPARED, advice)
    doubt, edits = _doubt_of_deferring(script, loads, losses), None
    message = "Call `defer_logits(model)` once the model is loaded"
    if doubt not in (IF_TAKEN, _IF_UNSEEN):
        edits = together(*(call_on_model(script, _DEFER, facts) for facts in models))
    if edits is None:
        edits = together(*(_around_pass(script, one) for one in _passes(script, losses)))
        message = "Run the pass under `with defer_logits(model):`"
    return _told(message, doubt, edits) if edits else Change(_SPARED, advice)


def _doubt_of_deferring(script: Script, loads: list[Call], losses: list[TokenLoss]) -> str:
    if not loads or any(one.method != "from_pretrained" or one.loads_own_code for one in loads):
        return IF_TAKEN
    if script.is_sharded:
        return "if FSDP shards the head with the whole model, not by itself"
    return _IF_UNSEEN * _may_be_read_more(script, losses)


def _told(message: str, doubt: str, edits: tuple[Edit, ...]) -> Change:
    message += (
        ": what is read of the logits is then computed tile by tile from the hidden states"
        + f", {doubt}" * bool(doubt)
    )
    return Change(_SPARED, message, edits, bool(doubt))


def _passes(script: Script, losses: list[TokenLoss]) -> list[Forward]:
    """The passes of this file that make all logits of losses; none where others make some."""
    found: dict[CallNode, Forward] = {}
    for tensor in (tensor for loss in losses for tensor in loss.logits):
        forward = forward_of(script, tensor)
        if forward is None or forward.own or is_elsewhere(forward.node):
            return []
        found[forward.node] = forward
    return list(found.values())


def _around_pass(script: Script, forward: Forward) -> tuple[Edit, ...] | None:
    named = reference_to(script, _DEFER, forward.node)
    if named is None:
        return None
    span = script.span(script.statement(forward.node))
    header = f"with {named.text}({script.text(forward.node.func)}):"
    return (WrapStatements(span, span, header), *named.edits)


def _is_looked_at(script: Script) -> bool:
    """True if a library may look at logits, or the runtime is too new for the target."""
    # Trainers gather the logits of evaluation, and these are no tensors.
    if script.all_trainers or script.api.behaviour("runtime") != "tested":
        return True
    calls = script.method_calls_anywhere(*_UNDEFERRABLE)
    if any(not one.name.startswith(("re.", "regex.")) for one in calls):
        return True
    # The first takes the head's weights away, the other puts functions into other precisions.
    return script.imports_package("deepspeed", "apex")


def _may_be_read_more(script: Script, losses: list[TokenLoss]) -> bool:
    """True if something out of sight may read logits."""
    nodes = dict.fromkeys(node for loss in losses for node in loss.nodes_of_logits)
    return any(goes_out_of_sight(script, node) for node in nodes)


def _are_few_forms(script: Script, losses: list[TokenLoss]) -> bool:
    """True if what is read of logits is what works tile by tile."""
    forms = {one.form for one in losses}
    return forms <= {LossForm.GATHERED, LossForm.CROSS_ENTROPY} and are_read_alone(script, losses)


def _models(script: Script, losses: list[TokenLoss]) -> list[ModelFacts]:
    """The models of the logits; none where one of them is not known."""
    found: dict[tuple[int, ...], ModelFacts] = {}
    for tensor in (tensor for loss in losses for tensor in loss.logits):
        forward = forward_of(script, tensor)
        if forward is None or tensor.passes("head") or not forward.facts.loads:
            return []
        found[tuple(map(id, forward.facts.objects))] = forward.facts
    return list(found.values())


def _doubt(script: Script, facts: ModelFacts) -> str:
    """Why the runtime might refuse a model; empty where it certainly takes it."""
    if script.imports_package("apex"):
        return "if apex leaves its precision alone"
    if script.matches(_REPLACED):
        return "if nothing else takes the place of its loss or of its pass"
    for load in facts.loads:
        name = load.setting("pretrained_model_name_or_path")
        written = isinstance(name.value, str) and not name.is_overridable_default
        checkpoint = str(name.value) if written else None
        doubt = doubt_of_load(script, load, load.loads_own_code, checkpoint)
        if doubt:
            return doubt
    return ""
