"""A causal LM loss over logits of size tokens times vocabulary.

transformers computes the loss of a causal LM from the full logits: 2 bytes a logit in bf16, 4 for
the float32 copy that the loss upcasts to, 4 for its log-softmax and 4 for the gradient, some 14
bytes times tokens times vocabulary. For 8,192 tokens and 151,936 words that is 16 GiB. A fused loss
computes tile by tile and never holds them. Source: ``ForCausalLMLoss`` of
``transformers/loss/loss_utils.py``; Wijmans et al., "Cut Your Losses in Large-Vocabulary Language
Models", arXiv:2411.09009.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from memlint.rule import (
    MISSING,
    Applicability,
    Example,
    Finding,
    Fix,
    InsertStatement,
    Level,
    Object,
    Rule,
    Script,
    Setting,
    Trainer,
)
from memlint_rules._libraries import LIBRARIES
from memlint_rules._models import written_checkpoint

_PLAIN = ("transformers.Trainer",)
# Calls of the runtime after which the model, or the script, computes the loss without logits.
_SPARING = ("fuse_causal_lm_loss", "token_logprobs", "sequence_logprobs")


def check(script: Script) -> Iterator[Finding]:
    if script.uses_unsloth or script.off_cuda or script.avoids_logits(*_SPARING):
        return
    for trainer in script.training:
        if _keeps_full_logits(script, trainer):
            yield Finding(
                script.span(trainer.node.func),
                f"`{trainer.kind.rpartition('.')[2]}` computes the loss from the full logits: some "
                "14 bytes for every token and word of the vocabulary",
                _fix(script, trainer),
            )


def _keeps_full_logits(script: Script, trainer: Trainer) -> bool:
    if trainer.model.is_toy:
        return False
    if trainer.kind == "trl.SFTTrainer":
        if script.api.behaviour("sft-loss") != "full logits":
            return False
        if not (trainer.model.by_name or trainer.model.causal_lm):
            return False
    elif trainer.kind not in _PLAIN or trainer.model.causal_lm is not True:
        return False
    if trainer.subclass is not None or trainer.setting("compute_loss_func").given is not False:
        return False
    if trainer.config is not None and not _is_off(trainer, "label_smoothing_factor"):
        # Trainer then takes the labels out of the batch and computes a loss of its own.
        return False
    config = trainer.config
    if config is None:
        return trainer.args.given is False
    return all(
        config.setting(name).given is False or config.setting(name).value is False
        for name in ("use_liger_kernel", "use_liger")
    )


def _is_off(trainer: Trainer, option: str) -> bool:
    assert trainer.config is not None
    setting = trainer.config.setting(option)
    return setting.given is False or setting.is_value(0, 0.0)


def _fix(script: Script, trainer: Trainer) -> Fix | None:
    """``fuse_causal_lm_loss(model)`` before the trainer is made, where the model has a name."""
    given = trainer.keyword_node("model")
    node = given.value if given is not None else next(iter(trainer.node.args), None)
    advice = "Compute the loss without the logits: `memlint_runtime.fuse_causal_lm_loss(model)`"
    if trainer.kind == "trl.SFTTrainer":
        # Those of its versions that keep the logits read them for their metrics.
        option = "use_liger_kernel"
        config = trainer.config
        if config is None or not config.has_option(option):
            return None
        return Fix(f"Set `{option}=True`", applicability=Applicability.DISPLAY)
    if script.api.behaviour("runtime") != "tested":
        advice += "; it builds on a newer transformers than the target's"
        return Fix(advice, applicability=Applicability.DISPLAY)
    if not isinstance(node, ast.Name):
        return Fix(advice)
    reference = script.reference("memlint_runtime.fuse_causal_lm_loss", trainer.node)
    statement = script.statement(trainer.node)
    if reference is None or not isinstance(statement, ast.Assign | ast.Expr | ast.Return):
        return Fix(advice)
    arguments = (
        f"{node.id}, fuse_evaluation=True" if _wants_the_loss_alone(script, trainer) else node.id
    )
    call = f"{reference.text}({arguments})"
    message = f"Call `{call}` before the trainer is made"
    edits = (InsertStatement(script.span(statement), call), *reference.edits)
    doubt = _doubt(script, trainer)
    if doubt:
        return Fix(f"{message}, {doubt}", edits, Applicability.UNSAFE)
    return Fix(message, edits)


def _wants_the_loss_alone(script: Script, trainer: Trainer) -> bool:
    """Whether evaluation takes place and reads no logits."""
    evaluated = trainer.setting("eval_dataset")
    if evaluated.given is not True or evaluated.value is None or trainer.open_ended:
        return False
    return trainer.setting("callbacks").given is False and not _reads_logits(script, trainer)


def _doubt(script: Script, trainer: Trainer) -> str:
    """Why the runtime might refuse the model; empty where it certainly takes it."""
    load = trainer.model.load
    if load is None or load.open_ended:
        return "if the runtime takes the model: it is loaded out of sight"
    remote = load.setting("trust_remote_code")
    if remote.given is not False and remote.value is not False:
        return "if its code, which comes with the checkpoint, leaves the loss to transformers"
    placed = load.setting("device_map")
    if placed.given is not False and not _is_one_device(script, placed):
        return "if its output head is not moved between devices"
    name = written_checkpoint(trainer)
    if name is None or not script.api.family(name).plain_loss:
        return "if the runtime takes the model: its name does not tell"
    return ""


def _is_one_device(script: Script, placed: Setting) -> bool:
    if isinstance(placed.value, Object) and placed.value.type == "dict":
        return script.item(placed.value, "") is not MISSING
    return placed.value is None or (
        isinstance(placed.value, str) and placed.value not in _SPREADING
    )


# Values of ``device_map`` that may put a model on several devices.
_SPREADING = ("auto", "balanced", "balanced_low_0", "sequential")


def _reads_logits(script: Script, trainer: Trainer) -> bool:
    """Whether evaluation or prediction hands logits to the script."""
    return any(
        trainer.setting(name).given is not False
        for name in ("compute_metrics", "preprocess_logits_for_metrics")
    ) or bool(script.method_calls("predict", "evaluation_loop", "prediction_step"))


RULE = Rule(
    code="MEM201",
    name="full-logits-loss",
    level=Level.WASTE,
    summary="causal LM loss over the full logits",
    why=(
        "The loss of a causal LM is computed from logits of tokens times vocabulary: in bf16, then "
        "in a float32 copy, then their log-softmax and gradient, some 14 bytes each. With today's "
        "vocabularies they are the largest tensors of the step. A fused loss computes them tile by "
        "tile and keeps none. TRL's SFT, DPO, KTO, GRPO and RLOO trainers do so since 1.15; "
        "`transformers.Trainer` does not."
    ),
    fix_safety=(
        "Safe: the same loss and gradients up to rounding. Unsafe where the runtime may refuse "
        "the model, which stops the script: code of its own, several devices, a checkpoint of "
        "unknown kind. `fuse_causal_lm_loss` comes with "
        "`pip install 'torch-memlint[runtime]'`: advice only for versions that it is not tested "
        "with, and for `SFTTrainer` before TRL 1.15, which reads the logits for its metrics. Silent "
        "where the script brings a loss of its own."
    ),
    check=check,
    triggers=(LIBRARIES, frozenset({"Trainer"})),
    references=(
        "https://arxiv.org/abs/2411.09009",
        "https://arxiv.org/abs/2410.10989",
    ),
    examples=(
        Example(
            title="transformers.Trainer",
            bad="""\
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
args = TrainingArguments("out", bf16=True, activation_checkpointing=True)
trainer = Trainer(model=model, args=args, train_dataset=dataset)
""",
            good="""\
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
from memlint_runtime import fuse_causal_lm_loss

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
args = TrainingArguments("out", bf16=True, activation_checkpointing=True)
fuse_causal_lm_loss(model)
trainer = Trainer(model=model, args=args, train_dataset=dataset)
""",
        ),
        Example(
            title="with metrics over the logits",
            bad="""\
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
args = TrainingArguments("out", bf16=True, activation_checkpointing=True)
trainer = Trainer(model=model, args=args, train_dataset=dataset, compute_metrics=accuracy)
""",
            good="""\
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
from memlint_runtime import fuse_causal_lm_loss

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
args = TrainingArguments("out", bf16=True, activation_checkpointing=True)
fuse_causal_lm_loss(model)
trainer = Trainer(model=model, args=args, train_dataset=dataset, compute_metrics=accuracy)
""",
        ),
    ),
)
