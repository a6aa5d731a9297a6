"""An evaluation batch that is larger than the training batch and builds full logits.

Evaluation saves no activations, but where the loss comes from the logits it holds them all: 2 bytes
for every token and word of the vocabulary in bf16, 4 for the float32 copy, 4 for its log-softmax. A
training batch of 1 beside the default evaluation batch of 8 makes the first evaluation, hours into
the run, the peak. Source: ``per_device_eval_batch_size`` of ``transformers/training_args.py``;
``ForCausalLMLoss`` of ``transformers/loss/loss_utils.py``.
"""

from __future__ import annotations

from collections.abc import Iterator

from memlint.rule import Config, Example, Finding, Fix, Level, Rule, Script, Trainer
from memlint_rules._libraries import LIBRARIES
from memlint_rules._models import loads_language_model

_EVAL, _TRAIN = "per_device_eval_batch_size", "per_device_train_batch_size"
_STRATEGIES = ("eval_strategy", "evaluation_strategy")
_SPARING = ("fuse_causal_lm_loss", "fuse_trl_losses")
# How TRL's trainers with losses of their own compute them, by version; others keep full logits.
_TOPICS = {
    "trl.SFTTrainer": "sft-loss",
    "trl.DPOTrainer": "preference-loss",
    "trl.KTOTrainer": "preference-loss",
    "trl.experimental.kto.KTOTrainer": "preference-loss",
}
# Bytes for each logit: bf16, its float32 copy and the log-softmax; training adds the gradient.
_EVALUATED, _TRAINED = 10, 14
_ALWAYS = ("CPOTrainer", "ORPOTrainer")
_PLAIN = ("transformers.Trainer", "transformers.Seq2SeqTrainer")


def check(script: Script) -> Iterator[Finding]:
    if script.uses_unsloth or script.off_cuda or script.avoids_logits(*_SPARING):
        return
    seen = set()
    for trainer in script.training:
        config = trainer.config
        if config is None or config.node in seen or not _keeps_full_logits(script, trainer):
            continue
        evaluation, training = config.effective(_EVAL), config.effective(_TRAIN)
        if type(evaluation.value) is not int or type(training.value) is not int:
            continue
        if _times(evaluation.value, training.value) <= 1:
            continue
        if not _evaluates(script, trainer, config):
            continue
        seen.add(config.node)
        yield _finding(script, config, evaluation.value, training.value)


def _times(evaluation: int, training: int) -> float:
    """How many times the logits of a training step those of an evaluation step are."""
    return _EVALUATED * evaluation / (_TRAINED * training)


def _finding(script: Script, config: Config, evaluation: int, training: int) -> Finding:
    given = config.setting(_EVAL)
    node = given.node if given.given and given.node is not None else None
    by_default = "" if given.given else ", by the default,"
    edits = script.set_option(config, _EVAL, str(training))
    return Finding(
        script.span(node) if node is not None else script.span(config.node.func),
        f"evaluates {evaluation} rows at a time{by_default} where it trains on {training}: its "
        f"full logits take {_times(evaluation, training):.1f} times those of training "
        f"({_EVALUATED} bytes a token and word against {_TRAINED})",
        Fix(f"Set `{_EVAL}={training}`", edits) if edits else None,
    )


def _keeps_full_logits(script: Script, trainer: Trainer) -> bool:
    """Whether a loss over the whole vocabulary is surely computed from its logits."""
    if trainer.model.is_toy or trainer.subclass is not None or _has_own_loss(trainer):
        return False
    if trainer.kind in _PLAIN:
        load = trainer.model.load
        return load is not None and loads_language_model(load)
    topic = _TOPICS.get(trainer.kind)
    if topic is not None:
        return script.api.behaviour(topic) == "full logits"
    return trainer.kind.startswith("trl.") and trainer.kind.endswith(_ALWAYS)


def _has_own_loss(trainer: Trainer) -> bool:
    """Whether the configuration asks for a fused loss, or the script brings one."""
    if trainer.setting("compute_loss_func").given is not False:
        return True
    config = trainer.config
    if config is None:
        return True
    settings = [
        config.setting(name) for name in ("use_liger_kernel", "use_liger_loss", "use_liger")
    ]
    return any(one.given is not False and one.value is not False for one in settings)


def _evaluates(script: Script, trainer: Trainer, config: Config) -> bool:
    """Whether evaluation is scheduled and has data, or is called."""
    if trainer.setting("eval_dataset").given is not True or trainer.setting("eval_dataset").is_none:
        return False
    if any(config.setting(name).is_value("steps", "epoch") for name in _STRATEGIES):
        return True
    nodes = {record.node for record in trainer.records}
    return any(
        getattr(getattr(call.receiver, "made_by", None), "node", None) in nodes
        and not call.keywords
        and not call.node.args
        for call in script.method_calls("evaluate")
    )


RULE = Rule(
    code="MEM207",
    name="larger-eval-batch",
    level=Level.WASTE,
    summary="evaluation batch larger than the training batch, over full logits",
    why=(
        "Who trains with a batch of 1 or 2 does so because more does not fit. Evaluation keeps its "
        "own batch size, 8 unless something is said. It saves no activations for a backward pass, "
        "but a loss over the logits holds them all at once, some 10 bytes for every token and word "
        "of the vocabulary: 8 rows of 2,048 tokens and 151,936 words are 23 GiB. The run then "
        "fails in its first evaluation. Silent where the loss needs no full logits, where "
        "training's take more (14 bytes, with the gradient), and where nothing is evaluated."
    ),
    fix_safety=(
        "Safe: what is learned does not depend on it. The evaluation loss is a mean over batches, "
        "so its last digits may."
    ),
    check=check,
    triggers=(LIBRARIES, frozenset({"Trainer"})),
    references=("https://huggingface.co/docs/transformers/main_classes/trainer",),
    examples=(
        Example(
            title="by the default",
            bad="""\
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
args = TrainingArguments(
    "out",
    per_device_train_batch_size=1,
    eval_strategy="epoch",
)
trainer = Trainer(model, args, train_dataset=train, eval_dataset=test)
trainer.train()
""",
            good="""\
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
args = TrainingArguments(
    "out",
    per_device_train_batch_size=1,
    eval_strategy="epoch",
    per_device_eval_batch_size=1,
)
trainer = Trainer(model, args, train_dataset=train, eval_dataset=test)
trainer.train()
""",
        ),
        Example(
            title="given, and evaluated once",
            bad="""\
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
args = TrainingArguments("out", per_device_train_batch_size=4, per_device_eval_batch_size=16)
trainer = Trainer(model=model, args=args, train_dataset=train, eval_dataset=test)
trainer.train()
trainer.evaluate()
""",
            good="""\
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
args = TrainingArguments("out", per_device_train_batch_size=4, per_device_eval_batch_size=4)
trainer = Trainer(model=model, args=args, train_dataset=train, eval_dataset=test)
trainer.train()
trainer.evaluate()
""",
        ),
    ),
)
