"""Arguments that a trainer refuses together with its model, its data or its configuration."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from memlint.rule import (
    Applicability,
    Call,
    Config,
    Finding,
    Fix,
    Object,
    RemoveKeyword,
    ReplaceExpression,
    Script,
    Setting,
    Trainer,
)

_SYNCHRONIZED = ("trl.DPOTrainer", "trl.KTOTrainer", "trl.GRPOTrainer", "trl.RLOOTrainer")
_WITH_FUSED_HEAD = ("trl.SFTTrainer", *_SYNCHRONIZED)
_HEAD = "lm_head"


def refused_trainers(script: Script, trainer: Trainer) -> Iterator[Finding]:
    """What the trainer's constructor, or its first step, raises an error for."""
    if trainer.subclass is not None or script.uses_unsloth:
        # Its own constructor may see to it.
        return
    yield from _quantized_base(script, trainer)
    yield from _no_evaluation_data(script, trainer)
    yield from _unscalable_gradients(script, trainer)
    if trainer.kind.startswith("trl."):
        yield from _same_reference(script, trainer)
        yield from _two_adapters(script, trainer)
        yield from _reference_beside_adapter(script, trainer)
        yield from _head_adapter(script, trainer)
        yield from _of_config(script, trainer)


def _refused(
    script: Script, trainer: Trainer, node: ast.AST | None, reason: str, fix: Fix | None
) -> Finding:
    name = trainer.kind.rpartition(".")[2]
    return Finding(
        script.span(node if node is not None else trainer.node.func),
        f"`{name}` refuses this at run time: {reason}",
        fix,
    )


def _advice(text: str) -> Fix:
    return Fix(text, (), Applicability.DISPLAY)


def _without(trainer: Trainer, name: str, text: str, *, safe: bool) -> Fix:
    if trainer.keyword_node(name) is None:
        return _advice(text)
    how = Applicability.SAFE if safe else Applicability.UNSAFE
    return Fix(text, (RemoveKeyword(trainer.span, name),), how)


def _is_something(setting: Setting) -> bool:
    """True if an argument certainly is given, and not None."""
    value = setting.value
    if isinstance(value, Object) and value.type is None and value.cls is None:
        return False
    if _is_given_function(setting):
        return True
    return setting.given is True and setting.known and value is not None


def _same_reference(script: Script, trainer: Trainer) -> Iterator[Finding]:
    model, reference = trainer.setting("model"), trainer.setting("ref_model")
    if not isinstance(model.value, Object) or model.value is not reference.value:
        return
    if script.api.behaviour("same-reference") == "refused":
        yield _refused(
            script,
            trainer,
            trainer.keyword_node("ref_model"),
            "`ref_model` is the model itself",
            _without(trainer, "ref_model", "Leave `ref_model` out", safe=False),
        )


def _two_adapters(script: Script, trainer: Trainer) -> Iterator[Finding]:
    """An adapter configuration for a model that has adapters."""
    if trainer.model.peft is not True or not _is_something(trainer.setting("peft_config")):
        return
    if script.api.behaviour("peft-model-and-config") == "refused":
        yield _refused(
            script,
            trainer,
            trainer.keyword_node("peft_config"),
            "a `PeftModel` and a `peft_config`",
            _without(
                trainer, "peft_config", "Remove `peft_config`: the model has its adapter", safe=True
            ),
        )


def _reference_beside_adapter(script: Script, trainer: Trainer) -> Iterator[Finding]:
    """A reference model of its own, where the model without its adapter is the reference."""
    if not script.api.is_a(trainer.kind, "trl.DPOTrainer"):
        return
    if script.api.behaviour("reference-beside-adapter") != "refused":
        return
    if not _is_something(trainer.setting("ref_model")):
        return
    if not _is_something(trainer.setting("peft_config")):
        return
    if not _is_off(trainer, "force_use_ref_model"):
        return
    yield _refused(
        script,
        trainer,
        trainer.keyword_node("ref_model"),
        "a `ref_model` and a `peft_config`; the reference is the model without its adapter",
        _without(trainer, "ref_model", "Remove `ref_model`", safe=False),
    )


def _is_off(trainer: Trainer, option: str) -> bool:
    """True if an option certainly is not on, in the trainer's call or its configuration."""
    here = trainer.setting(option)
    config = trainer.config
    there = config.setting(option) if config is not None else here
    return all(one.given is False or one.value is False for one in (here, there))


def _head_adapter(script: Script, trainer: Trainer) -> Iterator[Finding]:
    """An adapter on the output head, whose weight the loss reads past the adapter."""
    if not script.api.is_a(trainer.kind, *_WITH_FUSED_HEAD):
        return
    chunked = trainer.is_kind("SFTTrainer") and trainer.settled("loss_type") == "chunked_nll"
    if script.api.behaviour("head-adapter") != "refused" and not chunked:
        return
    for config in _adapters(script, trainer):
        modules = config.setting("target_modules")
        if not isinstance(modules.value, list | tuple) or _HEAD not in modules.value:
            continue
        yield _refused(
            script,
            trainer,
            modules.node,
            f"the loss reads the weight of `{_HEAD}`, past an adapter on it",
            _without_head(script, modules),
        )


def _adapters(script: Script, trainer: Trainer) -> Iterator[Call]:
    """The adapter configurations that the trainer or ``get_peft_model`` gets."""
    values = [trainer.setting("peft_config").value]
    for made in trainer.model.objects:
        call = script.call_at(made.node)
        if call is not None and call.method == "get_peft_model":
            values += [call.setting("peft_config").value, call.argument(1)]
    for value in values:
        config = script.call_at(value.node) if isinstance(value, Object) else None
        if config is not None and script.api.is_a(config.name, "peft.PeftConfig"):
            yield config


def _without_head(script: Script, modules: Setting) -> Fix:
    text = f"Leave `{_HEAD}` out, or train it whole: `modules_to_save=[{_HEAD!r}]`"
    node = modules.node
    if not isinstance(node, ast.List | ast.Tuple | ast.Set) or len(node.elts) < 3:
        return _advice(text)
    kept = [one for one in node.elts if getattr(one, "value", None) != _HEAD]
    if len(kept) != len(node.elts) - 1 or "#" in script.text(node):
        return _advice(text)
    opening, closing = script.text(node)[0], script.text(node)[-1]
    source = ", ".join(script.text(one) for one in kept)
    edit = ReplaceExpression(script.span(node), f"{opening}{source}{closing}")
    return Fix(text, (edit,), Applicability.UNSAFE)


def _of_config(script: Script, trainer: Trainer) -> Iterator[Finding]:
    """What does not go with the trainer's configuration."""
    config = trainer.config
    if config is None:
        return
    if script.api.is_a(trainer.kind, "trl.SFTTrainer"):
        yield from _collator(script, trainer, config)
        yield from _formatting(script, trainer, config)
    if script.api.is_a(trainer.kind, *_SYNCHRONIZED):
        yield from _synchronized(script, trainer, config)
        yield from _weights(script, trainer, config)


def _collator(script: Script, trainer: Trainer, config: Config) -> Iterator[Finding]:
    """A collator of the script's own beside rows without padding."""
    without_padding = script.api.behaviour("padding-free-packing").split()
    if config.packing == "padding_free" or config.setting("padding_free").value is True:
        option = "padding_free"
    elif config.packing is not None and config.packing in without_padding:
        option = "packing"
    else:
        return
    if not _is_something(trainer.setting("data_collator")):
        return
    if script.api.behaviour("padding-free-collator") == "refused":
        yield _refused(
            script,
            trainer,
            trainer.keyword_node("data_collator"),
            f"`{option}` brings its own collator",
            _advice(f"Remove `data_collator`, or `{option}` where the collator is needed"),
        )


def _formatting(script: Script, trainer: Trainer, config: Config) -> Iterator[Finding]:
    only = config.setting("completion_only_loss")
    if not only.given or only.value is not True:
        return
    if not _is_given_function(trainer.setting("formatting_func")):
        return
    if script.api.behaviour("completion-formatting") == "refused":
        yield _refused(
            script,
            trainer,
            trainer.keyword_node("formatting_func"),
            "a formatting function makes one text, in which no completion is known",
            _advice("Give the data as prompts and completions, without `formatting_func`"),
        )


def _is_given_function(setting: Setting) -> bool:
    """True if it is one of the script's own functions, written as an argument."""
    return setting.given is True and type(setting.raw).__name__ == "Function"


def _synchronized(script: Script, trainer: Trainer, config: Config) -> Iterator[Finding]:
    synchronized = config.setting("sync_ref_model")
    if not synchronized.given or synchronized.value is not True or trainer.peft is not True:
        return
    if script.api.behaviour("synchronized-adapter") == "refused":
        yield _refused(
            script,
            trainer,
            synchronized.node,
            "with adapters there is no reference model to synchronize",
            _advice("Remove `sync_ref_model`"),
        )


def _weights(script: Script, trainer: Trainer, config: Config) -> Iterator[Finding]:
    """A weight for each reward."""
    weights = config.setting("reward_weights").value
    rewards = trainer.setting("reward_funcs")
    count = len(rewards.value) if isinstance(rewards.value, list) else None
    elements = getattr(rewards.raw, "items", None)
    if count is None and elements is not None and not getattr(rewards.raw, "open", True):
        count = len(elements)
    if not isinstance(weights, list) or count is None or count == len(weights):
        return
    if script.api.behaviour("reward-weights") == "one each":
        yield _refused(
            script,
            trainer,
            config.setting("reward_weights").node,
            f"{len(weights)} reward weights for {count} reward functions",
            _advice("Give one weight for each reward function"),
        )


def _quantized_base(script: Script, trainer: Trainer) -> Iterator[Finding]:
    """Quantized weights cannot be trained; adapters on them can."""
    model = trainer.model
    if model.quantized is not True or trainer.peft is not False or not _is_bitsandbytes(model.load):
        return
    if script.method_calls("add_adapter", "load_adapter", "inject_adapter_in_model"):
        return
    yield _refused(
        script,
        trainer,
        trainer.keyword_node("model"),
        "the model is quantized, and no adapter is trained on it",
        _advice("Give the trainer adapters: `peft_config=LoraConfig(...)` or `get_peft_model`"),
    )


def _is_bitsandbytes(load: Call | None) -> bool:
    """True if the weights are certainly quantized by bitsandbytes: others may be trainable."""
    if load is None:
        return False
    config = load.setting("quantization_config").value
    if isinstance(config, Object):
        return bool(config.type and config.type.endswith("BitsAndBytesConfig"))
    return any(load.setting(name).value is True for name in ("load_in_4bit", "load_in_8bit"))


def _no_evaluation_data(script: Script, trainer: Trainer) -> Iterator[Finding]:
    """Evaluation is scheduled, and there is nothing to evaluate."""
    config, data = trainer.config, trainer.setting("eval_dataset")
    if config is None or trainer.has_unknown_keywords or not (data.given is False or data.is_none):
        return
    if script.api.behaviour("evaluation-without-data") != "refused":
        return
    strategy = config.setting("eval_strategy")
    if (
        not strategy.given
        or strategy.is_overridable_default
        or strategy.value not in ("steps", "epoch")
    ):
        return
    if script.trainers_with(config) != (trainer,) and len(script.trainers_with(config)) > 1:
        return
    yield _refused(
        script,
        trainer,
        strategy.node,
        f"`eval_strategy={strategy.value!r}` without an `eval_dataset`",
        _advice("Give the trainer an `eval_dataset`, or do without `eval_strategy`"),
    )


def _unscalable_gradients(script: Script, trainer: Trainer) -> Iterator[Finding]:
    """Weights in float16 give gradients in float16, which torch's gradient scaler refuses."""
    config, load = trainer.config, trainer.model.load
    if config is None or load is None or trainer.peft is not False:
        return
    if trainer.model.quantized is not False or script.off_cuda:
        return
    dtype = _half_weights(load)
    if dtype is None or not _scales_gradients(config):
        return
    if script.calls_on(trainer.model, "float", "to", "bfloat16"):
        return
    yield _refused(
        script,
        trainer,
        dtype.node,
        "the gradient scaler of `fp16=True` does not take weights in float16",
        _advice(
            "Load them in float32, or train in bfloat16: "
            f"`{dtype.name}=torch.bfloat16`, `bf16=True`"
        ),
    )


def _scales_gradients(config: Config) -> bool:
    """True if torch's gradient scaler certainly runs."""
    mixed = config.setting("fp16")
    if not mixed.given or mixed.value is not True or mixed.is_overridable_default:
        return False
    # These keep weights of their own in float32, or scale otherwise.
    others = ("deepspeed", "fsdp", "use_cpu")
    return all(config.setting(name).given is False for name in others)


def _half_weights(load: Call) -> Setting | None:
    """What loads a model in float16."""
    for name in ("dtype", "torch_dtype"):
        dtype = load.setting(name)
        half = dtype.symbol in ("torch.float16", "torch.half") or dtype.value == "float16"
        if dtype.given is True and half:
            return dtype
    return None
