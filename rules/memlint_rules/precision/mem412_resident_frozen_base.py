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

# Billions of parameters: 2 GiB in bf16, or in 4 bits.
_LEAST, _LEAST_QUANTIZED = 1.0, 4.0
_PACKAGE, _NAME = "memlint_runtime", "stream_frozen_weights"
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
    names = (_CALL, f"{_PACKAGE}.streaming.stream_frozen_weights", f"{_PACKAGE}.load_streamed")
    if script.is_sharded or script.calls_anywhere(*names, f"{_PACKAGE}.streaming.load_streamed"):
        return
    for one in script.trained:
        billions, stored = one.facts.billions, one.facts.family.has("stored_quantized")
        least = _LEAST_QUANTIZED if one.facts.quantized else _LEAST
        if one.peft is not True or billions is None or billions <= least:
            continue
        # A default that its class cannot load is never loaded.
        unfit = one.facts.causal_lm is True and one.facts.family.has("encodes")
        if stored or unfit or (one.trainer is not None and _generates(one.trainer)):
            continue
        yield Finding(
            script.span(one.load.node.func if one.load is not None else one.place),
            f"a frozen base of {billions:g} billion weights stays on the GPU, where a step needs "
            "two of its layers at a time",
            _fix(script, one),
        )


def _generates(trainer: Trainer) -> bool:
    """True if it generates as it trains, or as it evaluates: each token reads the whole base."""
    evaluated = trainer.config.setting("predict_with_generate") if trainer.config else None
    return trainer.is_kind(*_ONLINE) or (evaluated is not None and evaluated.value is True)


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
    adapter = trainer.setting("peft_config")
    if adapter.given is False:
        return _after_the_adapters(script, trainer) or advise(f"Call {streams}")
    return _before_the_trainer(script, trainer) or advise(
        f"Make the adapters yourself (`get_peft_model`), and call {streams}"
    )


def _is_plain(script: Script, load: Call, trainer: Trainer) -> bool:
    """True if nothing in sight meddles with the weights between the load and the last step."""
    if trainer.kind not in _TESTED or trainer.subclass is not None or trainer.has_unknown_keywords:
        return False
    if script.api.behaviour("runtime") != "tested" or load.has_unknown_keywords:
        return False
    if load.loads_own_code or not trainer.model.loader.endswith("CausalLM"):
        return False
    if script.method_calls_anywhere(*_METHODS) or script.calls_anywhere(*_FUNCTIONS):
        return False
    config, reference = trainer.config, trainer.setting("ref_model")
    if config is None or config.from_command_line:
        return False
    if reference.given is not False and not reference.is_none:
        return False
    return all(config.setting(name).given is False for name in _OPTIONS)


def _after_the_adapters(script: Script, trainer: Trainer) -> Fix | None:
    """A call after ``model = get_peft_model(...)``, where the trainer's model has that name."""
    made = script.calls_to("peft.get_peft_model")
    if len(made) != 1:
        return None
    match script.statement(made[0].node):
        case ast.Assign(targets=[ast.Name(id=name)], value=value) as statement:
            if value is made[0].node and name == trainer.model_name and _is_lora(script, None):
                changes = edits.call_beside(script, _CALL, name, statement, "after")
                return fix(f"Call `{_NAME}({name})` after the adapters", changes, unsafe=True)
    return None


def _before_the_trainer(script: Script, trainer: Trainer) -> Fix | None:
    """The trainer wraps the base: it is frozen, as PEFT does, and streams already then."""
    name, statement = trainer.model_name, script.statement(trainer.node)
    if name is None or not script.is_simple(statement) or not _is_lora(script, _PLAIN_LORA):
        return None
    arguments = f"{name}.requires_grad_(False)"
    changes = edits.call_beside(script, _CALL, arguments, statement)
    return fix(f"Call `{_NAME}({arguments})` before the trainer is made", changes, unsafe=True)


def _is_lora(script: Script, options: frozenset[str] | None) -> bool:
    made = script.calls_to("peft.LoraConfig")
    if len(made) != 1 or made[0].has_unknown_keywords:
        return False
    return options is None or options.issuperset(made[0].keywords)


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
