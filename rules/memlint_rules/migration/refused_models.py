"""What a trainer refuses of its model: quantized or narrow weights, adapters on the head."""

import ast
from collections.abc import Iterator

from memlint.rule import Call, Config, Fix, Object, Script, Setting, Trainer, advise, edits, fix

# Where, why, and what to do.
Refused = tuple[ast.AST | None, str, Fix]
# Trainers of TRL with a fused output head.
FUSED = ("trl.DPOTrainer", "trl.KTOTrainer", "trl.GRPOTrainer", "trl.RLOOTrainer")
_HEAD = "lm_head"


def refused_models(script: Script, trainer: Trainer) -> Iterator[Refused]:
    yield from _quantized_base(script, trainer)
    yield from _unscalable_gradients(script, trainer)
    yield from _head_adapter(script, trainer)


def _quantized_base(script: Script, trainer: Trainer) -> Iterator[Refused]:
    """Quantized weights cannot be trained; adapters on them can."""
    model = trainer.model
    if model.quantized is not True or trainer.peft is not False or not _is_bitsandbytes(model.load):
        return
    if not script.method_calls("add_adapter", "load_adapter", "inject_adapter_in_model"):
        yield (
            trainer.keyword_node("model"),
            "the model is quantized, and no adapter is trained on it",
            advise("Give the trainer adapters: `peft_config=LoraConfig(...)` or `get_peft_model`"),
        )


def _is_bitsandbytes(load: Call | None) -> bool:
    """True if the weights are certainly quantized by bitsandbytes: others may be trainable."""
    if load is None:
        return False
    config = load.setting("quantization_config").value
    if isinstance(config, Object):
        return bool(config.type and config.type.endswith("BitsAndBytesConfig"))
    return any(load.setting(name).value is True for name in ("load_in_4bit", "load_in_8bit"))


def _unscalable_gradients(script: Script, trainer: Trainer) -> Iterator[Refused]:
    """Weights in float16 give gradients in float16, which torch's gradient scaler refuses."""
    config, load = trainer.config, trainer.model.load
    if config is None or load is None or trainer.peft is not False:
        return
    if trainer.model.quantized is not False or script.off_cuda:
        return
    dtype = _half_weights(load)
    if dtype is None or not _scales_gradients(config):
        return
    if not script.calls_on(trainer.model, "float", "to", "bfloat16"):
        bf16 = f"`{dtype.name}=torch.bfloat16`, `bf16=True`"
        yield (
            dtype.node,
            "the gradient scaler of `fp16=True` does not take weights in float16",
            advise(f"Load them in float32, or train in bfloat16: {bf16}"),
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
    for dtype in map(load.setting, ("dtype", "torch_dtype")):
        half = dtype.symbol in ("torch.float16", "torch.half") or dtype.value == "float16"
        if dtype.given is True and half:
            return dtype
    return None


def _head_adapter(script: Script, trainer: Trainer) -> Iterator[Refused]:
    """An adapter on the output head, whose weight the loss reads past the adapter."""
    if not script.api.is_a(trainer.kind, "trl.SFTTrainer", *FUSED):
        return
    chunked = trainer.is_kind("SFTTrainer") and trainer.settled("loss_type") == "chunked_nll"
    if script.api.behaviour("head-adapter") != "refused" and not chunked:
        return
    for config in _adapters(script, trainer):
        modules = config.setting("target_modules")
        if isinstance(modules.value, list | tuple) and _HEAD in modules.value:
            reason = f"the loss reads the weight of `{_HEAD}`, past an adapter on it"
            yield modules.node, reason, _without_head(script, modules.node)


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


def _without_head(script: Script, node: ast.AST | None) -> Fix:
    text = f"Leave `{_HEAD}` out, or train it whole: `modules_to_save=[{_HEAD!r}]`"
    if not isinstance(node, ast.List | ast.Tuple | ast.Set) or len(node.elts) < 3:
        return advise(text)
    kept = [item for item in node.elts if getattr(item, "value", None) != _HEAD]
    written = script.text(node)
    if len(kept) != len(node.elts) - 1 or "#" in written:
        return advise(text)
    source = written[0] + ", ".join(map(script.text, kept)) + written[-1]
    return fix(text, (edits.ReplaceExpression(script.span(node), source),), unsafe=True)
