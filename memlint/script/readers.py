"""What reads a trainer's batches, its predictions and its model's logits, besides the trainer.

Without padding, or without logits, a trainer learns the same; code of the script that looks at the
batches or calls the model itself then sees something else. What goes out of sight may be read.
"""

from collections.abc import Iterator

from memlint.engine.growth import ConfigAssignment, bound_names, config_assignments_in, own_object
from memlint.engine.guards import decides_around
from memlint.engine.nodes import (
    CallNode,
    Definition,
    Expression,
    Node,
    arguments_of,
    holder_of_item,
    last_name,
    literal_of,
)
from memlint.engine.tensors import Output
from memlint.engine.usage import Usage, Way
from memlint.engine.values import Function, Object, Sequence, Value, options
from memlint.flow.escapes import members_read
from memlint.script.call_settings import MISSING
from memlint.script.calls import Host, Trainer
from memlint.script.forward_passes import Forward, all_forwards_of
from memlint.script.guesses import is_output_name, may_use
from memlint.script.loaded_models import model_facts
from memlint.script.reads import fields_read
from memlint.script.setups import calls_on_trainer, trainer_uses
from memlint.source.record import NamedTuple

# What is read off a trainer and does not depend on how its batches are laid out: `predict` keeps
# its rows without padding.
_APART_FROM_BATCHES = frozenset(
    {
        *("train", "evaluate", "predict", "save_model", "save_state", "save_metrics", "log"),
        *(
            *("log_metrics", "metrics_format", "push_to_hub"),
            *("create_model_card", "is_world_process_zero"),
        ),
        *("is_local_process_zero", "add_callback", "remove_callback", "pop_callback", "state"),
        *("args", "model", "processing_class", "tokenizer", "train_dataset", "eval_dataset"),
        *("accelerator", "model_wrapped", "optimizer", "lr_scheduler", "is_fsdp_enabled"),
        *("is_deepspeed_enabled", "label_names", "create_optimizer", "create_scheduler"),
        *(
            "create_optimizer_and_scheduler",
            "get_num_trainable_parameters",
            "place_model_on_device",
        ),
        # Of what ``train()`` returns, which the run takes for the trainer.
        *("metrics", "training_loss", "global_step"),
        *("get_learning_rates", "control", "num_examples", "is_in_train", "ref_model"),
    }
)
_PREDICTS = frozenset({"predict", "prediction_loop", "evaluation_loop", "prediction_step"})
_DECIDING = frozenset({"hyperparameter_search", "add_callback", "lr_scheduler", "control"})
_DECISIONS = ("EarlyStopping", "ReduceLROnPlateau", "best_metric", "best_model_checkpoint")
_COLLECTS = ("append", "min", "max", "setdefault")
# Fields of outputs that a fused loss leaves as they are.
_WITHOUT_LOGITS = frozenset({"loss", "hidden_states", "past_key_values", "attentions"})
_HOOKS = ("register_forward", "register_module_forward", "register_full_backward")


class LogitReads(NamedTuple):
    """True if anything but the trainer may read the logits of passes of its model that get labels:
    in training mode, or in evaluation mode."""

    training: bool
    evaluation: bool


def reads_batches(script: Host, trainer: Trainer) -> bool:
    """True if the script may read what a trainer's collator makes."""
    members = _members(script, trainer)
    return (
        members is None
        or not members <= _APART_FROM_BATCHES
        or not _has_known_callbacks(script, trainer)
    )


def reads_predictions(script: Host, trainer: Trainer) -> bool:
    """True if the script may read the predictions that a trainer returns."""
    members = _members(script, trainer)
    if members is None:
        return True
    return bool(members & _PREDICTS) and not _reads_metrics_alone(script, trainer)


def logit_reads(script: Host, trainer: Trainer) -> LogitReads:
    """What reads the logits that a trainer's model gives where it gets labels."""
    objects = trainer.model.objects
    if not objects or may_use(script, *_HOOKS) or reads_unknown_logits(script):
        return LogitReads(True, True)
    members = members_read(script, objects), _members(script, trainer)
    if None in members or not _has_known_callbacks(script, trainer):
        return LogitReads(True, True)
    passes = [
        one
        for one in all_forwards_of(script)
        if not one.own and one.labels is not False and _may_run(script, trainer, one)
    ]
    reading = [one for one in passes if not leaves_logits(script, one)]
    evaluating = [_evaluates(script, trainer, one) for one in reading]
    return LogitReads(not all(evaluating), any(evaluating))


def may_see_outputs(script: Host, trainer: Trainer) -> bool:
    """True if the script may run a trainer's model itself and read more than the loss."""
    return any(
        not one.own and _may_run(script, trainer, one) and not leaves_logits(script, one)
        for one in all_forwards_of(script)
    )


def decides_by_evaluation(script: Host, trainer: Trainer) -> bool:
    """True if a checkpoint, the end of training or a learning rate may depend on evaluation."""
    config, members = trainer.config, _members(script, trainer)
    if config is None or members is None or members & _DECIDING:
        return True
    if config.setting("load_best_model_at_end").value not in (MISSING, False, None):
        return True
    schedule = config.setting("lr_scheduler_type")
    plateau = schedule.given is not False and (
        not isinstance(schedule.value, str) or "plateau" in schedule.value
    )
    best = config.setting("save_strategy").is_value("best")
    if plateau or best or may_use(script, *_DECISIONS):
        return True
    given = [trainer.setting(name).given for name in ("callbacks", "optimizers")]
    return given != [False, False] or not _only_shows_evaluation(script, trainer)


# -- trainers --------------------------------------------------------------------------------------


def _members(script: Host, trainer: Trainer) -> frozenset[str] | None:
    nodes: set[Node] = {one.node for one in trainer.invocations}
    return members_read(script, script.objects_made_at(nodes))


def _has_known_callbacks(script: Host, trainer: Trainer) -> bool:
    """True if all its callbacks are the libraries' own."""
    given = trainer.setting("callbacks")
    added = [
        value
        for call in script.method_calls("add_callback")
        for value in map(script.value, arguments_of(call.node))
    ]
    if given.given is False or given.is_none:
        return all(_is_known_callback(one) for one in added)
    listed = given.raw
    if trainer.has_unknown_keywords or not isinstance(listed, Sequence) or listed.open:
        return False
    return all(_is_known_callback(one) for one in (*listed.items, *added))


def _is_known_callback(value: Value) -> bool:
    kinds = [
        one.type if isinstance(one, Object) else getattr(one, "name", None)
        for one in options(value)
    ]
    return all((kind or "").startswith(("transformers.", "trl.")) for kind in kinds)


def _reads_metrics_alone(script: Host, trainer: Trainer) -> bool:
    """``trainer.predict(test).metrics``."""
    uses = [script.use(call.node) for call in calls_on_trainer(script, trainer, *_PREDICTS)]
    return bool(uses) and all(
        use.way is Way.DROPPED or (use.way is Way.READ and use.name == "metrics") for use in uses
    )


def _only_shows_evaluation(script: Host, trainer: Trainer) -> bool:
    """True if what ``trainer.evaluate()`` returns is compared with nothing."""
    return not any(
        decides_around(script, place, _COLLECTS)
        for call in calls_on_trainer(script, trainer, "evaluate")
        for place in (call.node, *_reads_of_result(script, call.node))
    )


def _reads_of_result(script: Host, call: CallNode) -> Iterator[Node]:
    """Where the names are read that the statement of a call binds."""
    statement = script.statement(call)
    scope = script.flow.scope(statement)
    for name in bound_names(statement):
        yield from script.flow.uses(name, scope)


# -- forward passes --------------------------------------------------------------------------------


def _may_run(script: Host, trainer: Trainer, forward: Forward) -> bool:
    known = set(map(id, trainer.model.objects))
    for one in options(forward.module):
        if not isinstance(one, Object) or (one.type is None and one.cls is None):
            return True
        if any(id(inner) in known for inner in model_facts(script, one).objects):
            return True
    return False


def leaves_logits(script: Host, forward: Forward) -> bool:
    """True if nothing reads the logits of a pass."""
    fields = fields_read(script, forward)
    return fields is not None and fields <= _WITHOUT_LOGITS


def _evaluates(script: Host, trainer: Trainer, forward: Forward) -> bool:
    """True if the model is in evaluation mode, into which training did not put it back."""
    if forward.training is not False:
        return False
    trained = [use.invocation.order for use in trainer_uses(script, trainer) if use.on]
    switched = [one.order for one in script.invocations if one.name.endswith(".eval")]
    return all(
        not any(order < run.order for order in trained)
        or any(max(o for o in trained if o < run.order) < order < run.order for order in switched)
        for run in forward.runs
    )


def reads_unknown_logits(script: Host) -> bool:
    """True if logits are read of something that is no output of a known forward pass."""
    named = [one for one in script.attributes("logits") if not _is_of_output(script, one.value)]
    return bool(named) or not all(
        use.way is Way.KEY and _is_of_output(script, holder_of_item(use.expression))
        for use in map(script.use, script.places_of_string("logits"))
    )


def _is_of_output(script: Host, node: Expression) -> bool:
    return all(isinstance(one, Output) for one in options(script.value(node)))


# -- metrics ---------------------------------------------------------------------------------------

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


# -- what may read a field of outputs --------------------------------------------------------------
# An output that is handed to code out of sight may be read there.

_HANDED_ON = (Way.RETURNED, Way.HELD, Way.GIVEN)


def config_assignments(script: Host, option: str) -> tuple[ConfigAssignment, ...]:
    """The statements ``model.config.option = value``, in source order."""
    return tuple(one for one in config_assignments_in(script) if one.option == option)


def may_read_output(script: Host, field: str) -> bool:
    """True if anything may read a field of outputs: by name, by place, or in code elsewhere."""
    option = f"output_{field}"
    if any(field in word and word != option for word in script.spelled):
        return True
    calls = script.call_nodes
    outputs = [
        *(one for one in script.variables if is_output_name(one.id)),
        *(one for one, v in script.evaluated() if any(isinstance(o, Output) for o in options(v))),
    ]
    return (
        any(_is_place(script.use(one)) for one in (*calls, *outputs))
        or any(_unpacks_forward(script, call) for call in calls)
        or any(script.use(one).way in _HANDED_ON for one in outputs if last_name(one))
    )


def _is_place(use: Usage) -> bool:
    """True for ``outputs[2]``: a place that may be that of the field."""
    if use.way is not Way.ITEM or use.by is None:
        return False
    place = literal_of(use.by)
    return use.name in ("UnaryOp", "Slice") or (isinstance(place, int) and place != 0)


def _unpacks_forward(script: Host, node: CallNode) -> bool:
    """``loss, logits, *rest = model(...)``."""
    use = script.use(node)
    if use.way is not Way.STORED or not any(place.unpacked for place in use.places):
        return False
    call = script.call_at(node)
    return call is not None and (call.name == "?" or call.name.endswith(".__call__"))
