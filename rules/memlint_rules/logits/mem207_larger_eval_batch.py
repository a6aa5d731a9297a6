"""An evaluation batch that is larger than the training batch and builds full logits."""

from collections.abc import Iterator

from memlint.rule import Config, Finding, Rule, Script, Skip, Trainer, edits, facts, fix
from memlint_rules.logits.evaluation_loops import EVALUATED, TRAINED, larger_evaluation_loops

_EVAL, _TRAIN = "per_device_eval_batch_size", "per_device_train_batch_size"
# Trainers that evaluate on completions of their own: the batch is a multiple of their groups.
_GENERATING = ("GRPOTrainer", "RLOOTrainer", "PPOTrainer", "PPOv2Trainer", "OnlineDPOTrainer")
_MOVED = ", if the evaluation loss, and what it decides, may be slightly another"


def check(script: Script) -> Iterator[Finding]:
    seen = set()
    for trainer in script.training:
        config = trainer.config
        if config is None or config.node in seen or not _keeps_full_logits(script, trainer):
            continue
        evaluation, training = trainer.number(_EVAL), trainer.number(_TRAIN)
        if evaluation is None or training is None or _times(evaluation, training) <= 1:
            continue
        if not _evaluates(script, trainer):
            continue
        seen.add(config.node)
        decides = facts.decides_by_evaluation(script, trainer)
        yield _finding(script, config, evaluation, training, decides=decides)
    yield from larger_evaluation_loops(script)


def _keeps_full_logits(script: Script, trainer: Trainer) -> bool:
    """True if evaluation definitely computes a loss over the whole vocabulary from its logits."""
    own = facts.trainer_overrides(script, trainer, "prediction_step", "evaluation_loop")
    if trainer.model.is_toy or own or trainer.is_kind(*_GENERATING):
        return False
    return script.owner_of_loss(trainer).full_logits is True


def _times(evaluation: int, training: int) -> float:
    """How many times the logits of a training step those of an evaluation step are."""
    return EVALUATED * evaluation / (TRAINED * training)


def _finding(
    script: Script, config: Config, evaluation: int, training: int, *, decides: bool
) -> Finding:
    given = config.setting(_EVAL)
    node = given.node if given.given and given.node is not None else None
    by_default = "" if given.given else ", by the default,"
    changes = edits.set_option(script, config, _EVAL, str(training))
    return Finding(
        script.span(node) if node is not None else script.span(config.node.func),
        f"evaluates {evaluation} rows at a time{by_default} where it trains on {training}: its "
        f"full logits take {_times(evaluation, training):.1f} times those of training "
        f"({EVALUATED} bytes a token and word against {TRAINED})",
        fix(f"Set `{_EVAL}={training}`{_MOVED if decides else ''}", changes, unsafe=decides),
    )


def _evaluates(script: Script, trainer: Trainer) -> bool:
    """True if evaluation is scheduled and has data, or is called."""
    data = trainer.setting("eval_dataset")
    if data.given is not True or data.is_none:
        return False
    return trainer.evaluates_on_schedule or any(
        not call.keywords and not call.node.args
        for call in facts.calls_on_trainer(script, trainer, "evaluate")
    )


RULE = Rule(
    summary="evaluation batch larger than the training batch, over full logits",
    check=check,
    skips=(Skip.UNSLOTH, Skip.OFF_CUDA),
    effect={"eval_batch": "micro_batch"},
)
