"""A frozen base that stays on the GPU, where it could visit it a layer at a time."""

import ast
from collections.abc import Iterator

from memlint.rule import (
    Call,
    Finding,
    Fix,
    Level,
    Rule,
    Script,
    Skip,
    Trainer,
    advise,
    edits,
    facts,
    fix,
    triggers,
)

# GiB of the base from which on it is worth the way from the host, on a large GPU too.
_LEAST, _LEAST_OF_LARGE = 3.5, 20
# Tokens of a pass that hide a byte of each weight on the bus, by ``docs/streaming.md``; bytes.
_HIDING, _OF_WEIGHT, _OF_QUANTIZED_BIT = 1440, 2, 9 / 64
_PACKAGE, _NAME, _TAKES_APART = "memlint_runtime", "stream_frozen_weights", "OSFConfig"
_CALL = f"{_PACKAGE}.{_NAME}"
# They generate in every step.
_ONLINE = (
    *("GRPOTrainer", "RLOOTrainer", "OnlineDPOTrainer", "PPOTrainer", "XPOTrainer"),
    *("NashMDTrainer", "AsyncGRPOTrainer", "GKDTrainer", "MiniLLMTrainer"),
)
_TESTED = ("transformers.Trainer", "trl.SFTTrainer", "trl.DPOTrainer", "trl.KTOTrainer")
# What reads weights, or copies them, past the modules' own passes.
_METHODS = ("merge_and_unload", "merge_adapter", "unload", "add_weighted_adapter")
_FUNCTIONS = ("torch.compile", "copy.deepcopy", "trl.create_reference_model")
_OPTIONS = ("use_liger_kernel", "use_liger_loss", "torch_compile", "activation_offloading")
# Options of an adapter that copy none of the base.
_PLAIN_LORA = frozenset({"r", "lora_alpha", "lora_dropout", "target_modules", "task_type"})
_PLAIN_LORA |= {"bias", "use_rslora"}


def check(script: Script) -> Iterator[Finding]:
    streams = script.method_calls_anywhere(_NAME, "load_streamed", _TAKES_APART)
    if script.is_sharded or streams or script.api.behaviour("runtime") != "tested":
        return
    for one in script.trained:
        stored = facts.loading_of(script, one.facts).get("quantization")
        width = stored["bits"] * _OF_QUANTIZED_BIT if stored else _OF_WEIGHT
        billions = one.facts.billions or 0
        least = _LEAST_OF_LARGE if facts.may_have_room(script) else _LEAST
        if billions * width * 1e9 / 2**30 < least or not _reads_it_seldom(script, one):
            continue
        _, _, tokens = facts.tokens_of_pass(script, one) or (0, 0, 0)
        by = one.load.setting("pretrained_model_name_or_path") if one.load is not None else None
        yield Finding(
            script.span(one.load.node.func if one.load is not None else one.place),
            f"a frozen base of {billions:g} billion weights stays on the GPU, where a step needs "
            "two of its layers at a time",
            _fix(script, one),
            to_fit=tokens < _HIDING * width or (by is not None and by.is_overridable_default),
        )


def _reads_it_seldom(script: Script, one: facts.Trained) -> bool:
    """True if it is a frozen base that can stream, in a run that reads it for steps alone: not for
    each token of what it generates as it trains or evaluates, or a loop's script anywhere."""
    family, trainer = one.facts.family, one.trainer
    # A default that its class cannot load is never loaded.
    unfit = one.facts.causal_lm is True and family.has("encodes")
    if one.peft is not True or unfit or family.has("stored_quantized"):
        return False
    if trainer is None:
        return not script.method_calls_anywhere("generate")
    generates = trainer.is_kind(*_ONLINE) or trainer.settled("predict_with_generate") is True
    return not generates and not facts.is_trial(script, one)


def _fix(script: Script, one: facts.Trained) -> Fix:
    load, trainer = one.load, one.trainer
    if load is None or script.is_quantized(load) is not False:
        return advise(
            f"Load it with `{_PACKAGE}.load_streamed(...)`, quantized or not, then add the adapters"
        )
    streams = f"`{_CALL}(model)` when the adapters are in place"
    if load.setting("device_map").given is not False:
        return advise(f"Load it without `device_map`, and call {streams}")
    if trainer is None or not _is_plain(script, load, trainer):
        return advise(f"Call {streams}")
    if trainer.setting("peft_config").given is False:
        return _after_the_adapters(script, trainer) or advise(f"Call {streams}")
    return _before_the_trainer(script, trainer) or advise(
        f"Make the adapters yourself (`get_peft_model`), and call {streams}"
    )


def _is_plain(script: Script, load: Call, trainer: Trainer) -> bool:
    """True if nothing in sight meddles with the weights between the load and the last step."""
    if trainer.kind not in _TESTED or trainer.subclass is not None or trainer.has_unknown_keywords:
        return False
    if load.has_unknown_keywords or load.loads_own_code:
        return False
    if script.method_calls_anywhere(*_METHODS) or script.calls_anywhere(*_FUNCTIONS):
        return False
    config, reference = trainer.config, trainer.setting("ref_model")
    compared = reference.given is not False and not reference.is_none
    if config is None or config.from_command_line or compared:
        return False
    causal = trainer.model.loader.endswith("CausalLM")
    return causal and all(config.setting(name).given is False for name in _OPTIONS)


def _after_the_adapters(script: Script, trainer: Trainer) -> Fix | None:
    """A call after ``model = get_peft_model(...)``, where the trainer's model has that name."""
    made = script.calls_to("peft.get_peft_model")
    match script.statement(made[0].node) if len(made) == 1 else None:
        case ast.Assign(targets=[ast.Name(id=name)], value=value) as statement:
            if value is made[0].node and name == trainer.model_name and _is_lora(script, None):
                changes = edits.call_beside(script, _CALL, name, statement, "after")
                return fix(f"Call `{_NAME}({name})` after the adapters", changes, unsafe=True)
    return None


def _before_the_trainer(script: Script, trainer: Trainer) -> Fix | None:
    """The trainer wraps the base: it is frozen, as PEFT does, and streams already then."""
    name, statement = trainer.model_name or ".", script.statement(trainer.node)
    if "." in name or not script.is_simple(statement) or not _is_lora(script, _PLAIN_LORA):
        return None
    frozen = f"{name}.requires_grad_(False)"
    changes = edits.call_beside(script, _CALL, frozen, statement)
    return fix(f"Call `{_NAME}({frozen})` before the trainer is made", changes, unsafe=True)


def _is_lora(script: Script, options: frozenset[str] | None) -> bool:
    made = script.calls_to("peft.LoraConfig")
    known = len(made) == 1 and not made[0].has_unknown_keywords
    return known and (options is None or options.issuperset(made[0].keywords))


RULE = Rule(
    level=Level.HINT,
    summary="a large frozen base that stays on the GPU under an adapter",
    check=check,
    on_request=True,
    only_to_fit=True,
    skips=(Skip.UNSLOTH, Skip.OFF_CUDA),
    triggers=(triggers.LIBRARIES, frozenset({"peft", "Lora"})),
    effect={"streamed": True},
)
