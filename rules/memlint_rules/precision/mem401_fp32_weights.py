"""Weights held in float32 where half of the bytes would do.

A parameter costs 4 bytes in float32 and 2 in bfloat16: 13 GiB for 7 billion of them. A frozen base
under an adapter needs no float32 at all; a full fine-tune may want float32 master weights, which
is why the fix is unsafe there. Source: transformers documentation, "Loading models" (dtype); TRL,
``trl/trainer/utils.py`` (a model given by name is loaded in float32 since 0.27).
"""

from __future__ import annotations

from collections.abc import Iterator

from memlint.rule import (
    Applicability,
    Call,
    Example,
    Finding,
    Fix,
    Level,
    Rule,
    Script,
    Setting,
    Trainer,
)
from memlint_rules._libraries import LIBRARIES
from memlint_rules._models import (
    DTYPE_OPTIONS,
    FLOAT32,
    dtype_name,
    given_dtype,
    is_trained,
    loads_language_model,
)


def check(script: Script) -> Iterator[Finding]:
    if script.off_cuda or script.uses_unsloth:
        return
    for load in script.model_loads:
        if not loads_language_model(load) or not is_trained(script, load):
            continue
        if not any(_scales_losses(one) for one in script.training if _trains(one, load)):
            yield from _check_load(script, load)
    for trainer in script.training:
        yield from _check_string_model(script, trainer)


def _scales_losses(trainer: Trainer) -> bool:
    """Whether all weights are trained with fp16, whose scaled gradients want float32 weights."""
    config = trainer.config
    if trainer.peft or config is None:
        return False
    fp16 = config.setting("fp16")
    return fp16.given is not False and fp16.value is not False


def _check_load(script: Script, load: Call) -> Iterator[Finding]:
    if script.is_quantized(load) is not False:
        return
    setting = given_dtype(load)
    if setting is None:
        if _default_is_float32(script, load) and not load.open_ended:
            yield Finding(
                script.span(load.node.func),
                "the model is loaded in float32, this version's default: 4 bytes a parameter "
                "where bfloat16 needs 2",
                _fix(script, load, _option(load)),
            )
    elif setting.given and dtype_name(setting) in FLOAT32:
        yield Finding(
            script.span(setting.node) if setting.node is not None else load.span,
            f"`{setting.name}` is float32: 4 bytes a parameter where bfloat16 needs 2",
            _fix(script, load, setting.name),
        )


def _default_is_float32(script: Script, load: Call) -> bool:
    """Before version 5, weights without a dtype were loaded in float32."""
    return script.api.behaviour("load-dtype") == "float32"


def _option(load: Call) -> str:
    return next((name for name in DTYPE_OPTIONS if load.has_option(name)), "torch_dtype")


def _fix(script: Script, load: Call, option: str) -> Fix | None:
    reference = script.reference("torch.bfloat16", load.node)
    if reference is None:
        return None
    edits = script.set_option(load, option, reference.text)
    if edits is None:
        return None
    trainers = [one for one in script.training if _trains(one, load)]
    frozen = bool(trainers) and all(trainer.peft for trainer in trainers)
    return Fix(
        f"Set `{option}={reference.text}`",
        (*edits, *reference.edits),
        Applicability.SAFE if frozen else Applicability.UNSAFE,
    )


def _trains(trainer: Trainer, load: Call) -> bool:
    return trainer.model.load is not None and trainer.model.load.node is load.node


def _check_string_model(script: Script, trainer: Trainer) -> Iterator[Finding]:
    """A TRL trainer that loads its model by name."""
    model = trainer.model
    if not (trainer.kind.startswith("trl.") and model.by_name) or model.is_toy:
        return
    if _scales_losses(trainer):
        return
    if script.api.signature(trainer.kind) is None:
        # A trainer that the target does not have loads nothing.
        return
    if script.api.behaviour("string-model-dtype") != "float32":
        return
    moved = trainer.setting("model_init_kwargs")
    if moved.given is not False and moved.value is not None:
        # Where older versions had the option.
        return
    config = trainer.config
    if trainer.args.given is False:
        kwargs: Setting | None = None
    elif config is None or config.fed_by_parser:
        return
    else:
        kwargs = config.setting("model_init_kwargs")
        if kwargs.given is not False and kwargs.value is not None:
            return
    given = trainer.setting("model")
    span = script.span(given.node) if given.node is not None else trainer.span
    fix = None
    if config is not None and kwargs is not None and config.has_option("model_init_kwargs"):
        loaded = f'{{"{_dtype_option(script)}": "bfloat16"}}'
        edits = script.set_option(config, "model_init_kwargs", loaded)
        if edits is not None:
            fix = Fix(
                f"Set `model_init_kwargs={loaded}`",
                edits,
                Applicability.SAFE if trainer.peft else Applicability.UNSAFE,
            )
    yield Finding(
        span,
        f"`{trainer.kind.rpartition('.')[2]}` loads a model given by name in float32: 4 bytes a "
        "parameter where bfloat16 needs 2",
        fix,
    )


def _dtype_option(script: Script) -> str:
    """What the target's ``from_pretrained`` calls it: a name that it does not know goes to the
    model's constructor, which refuses it."""
    signature = script.api.signature("transformers.AutoModelForCausalLM.from_pretrained")
    taken = signature.parameters if signature is not None else {}
    return next((name for name in DTYPE_OPTIONS if name in taken), DTYPE_OPTIONS[-1])


RULE = Rule(
    code="MEM401",
    name="fp32-weights",
    level=Level.WASTE,
    summary="weights loaded in float32",
    why=(
        "A parameter costs 4 bytes in float32 and 2 in bfloat16, and its gradient and optimizer "
        "states follow its dtype. Under an adapter the base is frozen and needs no float32 at all. "
        "Reported only where float32 is certain: it is written, it is the target version's default, "
        "or a TRL trainer loads the model by name. Silent for a full fine-tune with fp16, whose "
        "scaled gradients want float32 weights."
    ),
    fix_safety=(
        "Safe for a frozen base under PEFT. Unsafe for a full fine-tune: without float32 master "
        "weights small updates can be rounded away."
    ),
    check=check,
    triggers=(
        LIBRARIES,
        frozenset({"from_pretrained", "Trainer"}),
        frozenset({"Trainer", ".backward("}),
    ),
    references=("https://huggingface.co/docs/transformers/models#model-data-type",),
    examples=(
        Example(
            title="a frozen base in float32",
            bad="""\
import torch
from peft import LoraConfig
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", dtype=torch.float32)
trainer = SFTTrainer(model, args=SFTConfig(packing=True), peft_config=LoraConfig())
""",
            good="""\
import torch
from peft import LoraConfig
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", dtype=torch.bfloat16)
trainer = SFTTrainer(model, args=SFTConfig(packing=True), peft_config=LoraConfig())
""",
        ),
        Example(
            title="a model given by name",
            bad="""\
from trl import SFTConfig, SFTTrainer

args = SFTConfig(packing=True)
trainer = SFTTrainer(model="Qwen/Qwen3-8B", args=args, train_dataset=dataset)
""",
            good="""\
from trl import SFTConfig, SFTTrainer

args = SFTConfig(packing=True, model_init_kwargs={"dtype": "bfloat16"})
trainer = SFTTrainer(model="Qwen/Qwen3-8B", args=args, train_dataset=dataset)
""",
        ),
    ),
)
