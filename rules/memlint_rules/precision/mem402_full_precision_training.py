"""Training that computes in float32 where mixed precision would halve its activations.

With neither ``bf16`` nor ``fp16`` the trainer runs forward and backward in the weights' dtype. With
float32 weights every activation costs 4 bytes instead of 2, and matrix products run at a fraction
of the tensor cores' rate. Source: Micikevicius et al., "Mixed Precision Training",
arXiv:1710.03740; transformers documentation, "GPU" (mixed precision).
"""

from __future__ import annotations

from collections.abc import Iterator

from memlint.rule import (
    Applicability,
    Config,
    Example,
    Finding,
    Fix,
    Level,
    Rule,
    Script,
    Trainer,
)
from memlint_rules._libraries import LIBRARIES
from memlint_rules._models import (
    FLOAT32,
    dtype_name,
    given_dtype,
    loads_language_model,
    weights_dtype,
)

_OPTIONS = ("bf16", "fp16")
# Checkpoints that are stored in float32, so that they are float32 however they are loaded.
_FLOAT32_CHECKPOINTS = (
    "gpt2",
    "distilgpt2",
    "openai-community/gpt2",
    "distilbert/distilgpt2",
    "t5-",
    "google-t5/",
    "google/flan-t5",
    "google/mt5",
    "facebook/bart",
    "sshleifer/distilbart",
    "EleutherAI/gpt-neo-",
    "Salesforce/codet5",
    "google/pegasus",
)


def check(script: Script) -> Iterator[Finding]:
    if script.off_cuda or script.uses_unsloth:
        return
    for config in script.configs:
        trainers = script.training_with(config)
        if not trainers or not all(_surely_float32(script, one) for one in trainers):
            continue
        if _neither(config):
            yield _finding(script, config)


def _neither(config: Config) -> bool:
    """Whether both options are surely off. TRL's ``bf16=None`` means on."""
    if not config.kind.startswith("transformers."):
        return all(config.effective(name).value is False for name in _OPTIONS) and all(
            config.setting(name).given is not None for name in _OPTIONS
        )
    return all(
        config.effective(name).value in (False, None) and config.setting(name).given is not None
        for name in _OPTIONS
        if config.effective(name).known
    ) and all(config.effective(name).known for name in _OPTIONS)


def _surely_float32(script: Script, trainer: Trainer) -> bool:
    """Whether the weights are float32 for certain: otherwise they may be half already."""
    model = trainer.model
    if model.is_toy:
        return False
    if model.by_name:
        return weights_dtype(script, trainer) in FLOAT32
    load = model.load
    if load is None or not loads_language_model(load) or script.is_quantized(load) is not False:
        return False
    setting = given_dtype(load)
    if setting is not None and not setting.is_none:
        name = dtype_name(setting)
        return name in FLOAT32 or (name == "auto" and _stored_in_float32(model.name))
    if load.open_ended:
        return False
    return script.api.behaviour("load-dtype") == "float32" or _stored_in_float32(model.name)


def _stored_in_float32(name: object) -> bool:
    return isinstance(name, str) and name.startswith(_FLOAT32_CHECKPOINTS)


def _finding(script: Script, config: Config) -> Finding:
    given = [config.setting(name) for name in _OPTIONS if config.setting(name).given]
    node = next((one.node for one in given if one.node is not None), None)
    span = script.span(node) if node is not None and given else script.span(config.node.func)
    edits = script.set_option(config, "bf16", "True")
    fix = Fix("Set `bf16=True`", edits, Applicability.UNSAFE) if edits else None
    outside = next((one for one in given if one.by_default), None)
    if config.setting("fp16").by_default:
        # Both at once are refused, and the command line may give the other.
        fix = Fix("Set `bf16=True`, unless fp16 is asked for", applicability=Applicability.DISPLAY)
    return Finding(
        span,
        "trains in float32, with neither bf16 nor fp16: every activation takes 4 bytes where 2 "
        "would do" + (f" ({outside.origin})" if outside else ""),
        fix,
    )


RULE = Rule(
    code="MEM402",
    name="full-precision-training",
    level=Level.WASTE,
    summary="neither bf16 nor fp16",
    why=(
        "With neither `bf16` nor `fp16` a trainer computes in the weights' own dtype. Where they "
        "are float32, activations and logits take twice the memory of mixed precision and the "
        "tensor cores stand idle. Silent where the weights may be half precision already."
    ),
    fix_safety=(
        "Unsafe: training runs in bfloat16, which needs an Ampere GPU or newer. Advice only where a "
        "command line may ask for fp16: both at once are refused."
    ),
    check=check,
    triggers=(LIBRARIES, frozenset({"Trainer"})),
    references=(
        "https://arxiv.org/abs/1710.03740",
        "https://huggingface.co/docs/transformers/perf_train_gpu_one",
    ),
    examples=(
        Example(
            title="a checkpoint stored in float32",
            bad="""\
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("gpt2")
args = TrainingArguments("out", per_device_train_batch_size=4)
Trainer(model=model, args=args, train_dataset=dataset).train()
""",
            good="""\
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("gpt2")
args = TrainingArguments("out", per_device_train_batch_size=4, bf16=True)
Trainer(model=model, args=args, train_dataset=dataset).train()
""",
        ),
        Example(
            title="turned off by name",
            bad="""\
from trl import SFTConfig, SFTTrainer

args = SFTConfig("out", packing=True, bf16=False)
SFTTrainer("Qwen/Qwen3-8B", args=args, train_dataset=dataset).train()
""",
            good="""\
from trl import SFTConfig, SFTTrainer

args = SFTConfig("out", packing=True, bf16=True)
SFTTrainer("Qwen/Qwen3-8B", args=args, train_dataset=dataset).train()
""",
        ),
    ),
)
