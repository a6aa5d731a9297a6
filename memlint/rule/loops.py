"""The rules of trainers, for hand-written loops, which have no configuration.

Each function gives the findings of one rule in loops of plain torch, accelerate and PEFT. They rest
on models that a step of the script certainly trains (``script.loop_models``).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from memlint.engine.project import is_elsewhere
from memlint.engine.values import Value
from memlint.rule.findings import Finding, Fix
from memlint.rule.kit import advise, fix
from memlint.rule.precision import may_lack_bf16
from memlint.runs.changes import set_option
from memlint.script import Call, Dataset, LoopModel, Purpose, Script, Setting
from memlint.source.edits import InsertStatement

# Ways to turn checkpointing on, newest first: the method and its keyword.
_ENABLERS = (
    ("activation_checkpointing_enable", "activation_checkpointing_kwargs"),
    ("gradient_checkpointing_enable", "gradient_checkpointing_kwargs"),
)
# Methods that return the model that they are called on.
_SAME = ("to", "cuda", "train", "eval", "float", "half", "bfloat16", "requires_grad_")
FLOAT32 = "torch.float32"
# Libraries whose engines decide the precision by a configuration of theirs, and what FSDP calls it.
_DECIDING = ("lightning", "pytorch_lightning", "deepspeed", "colossalai")
_POLICIES = ("MixedPrecisionPolicy", "MixedPrecision", "mp_policy", "param_dtype")
# Bytes for each logit, in evaluation and in training.
_EVALUATED, _TRAINED = 10, 14


def unchecked_loops(script: Script) -> Iterator[Finding]:
    """Loops that keep the activations of all layers (MEM301)."""
    if not script.on_gpu or script.may_use("checkpointing", "torch.utils.checkpoint"):
        return
    for model in script.loop_models:
        owner = script.owner_of_checkpointing(model.facts)
        if owner.on is False and not model.in_evaluation_mode:
            yield Finding(
                script.span(model.load.node.func),
                "a loop trains this model without activation checkpointing: the activations of all "
                "layers are kept until backward",
                _checkpoint(script, model),
            )


def _checkpoint(script: Script, model: LoopModel) -> Fix:
    load = model.load
    name = _name_of(script, load)
    method, keyword = next(
        (
            pair
            for pair in _ENABLERS
            if script.api.signature(f"transformers.PreTrainedModel.{pair[0]}") is not None
        ),
        _ENABLERS[-1],
    )
    message = f"Call `{name or 'model'}.{method}()` after it is loaded"
    if script.method_calls("generate"):
        return advise(f"{message}, and put it in evaluation mode to generate")
    if name is None or script.is_named("past_key_values"):
        return advise(message)
    if not model.in_training_mode:
        return advise(
            f"{message}, and `{name}.train()`: a loaded model is in evaluation mode, in which "
            "nothing is checkpointed"
        )
    written = f'{name}.{method}({keyword}={{"use_reentrant": False}})'
    call = InsertStatement(script.span(script.statement(load.node)), written, "after")
    return fix(message, (call,), unsafe=load.loads_own_code)


def _name_of(script: Script, load: Call) -> str | None:
    """The name that a load gives its model: ``model = Auto.from_pretrained(...).cuda()``."""
    match script.statement(load.node):
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            while isinstance(value, ast.Call) and value is not load.node:
                func = value.func
                if not isinstance(func, ast.Attribute) or func.attr not in _SAME:
                    return None
                value = func.value
            return name if value is load.node else None
    return None


def full_precision_loops(script: Script) -> Iterator[Finding]:
    """Loops that compute in float32 (MEM402)."""
    accelerators = script.calls_to("accelerate.Accelerator")
    settings = [accelerator.setting("mixed_precision") for accelerator in accelerators]
    if not script.on_gpu or _is_decided_elsewhere(script, settings):
        return
    older = may_lack_bf16(script)
    for model in script.loop_models:
        if script.holds_float32(model.facts) and model.without_autocast:
            node = settings[0].node if settings else None
            calls = (one.node.func for one in model.forwards)
            yield Finding(
                script.span(_first_here(node, *calls) or model.load.node.func),
                "trains in float32, without autocast: every activation takes 4 bytes where 2 "
                "would do",
                advise(
                    f'Set `mixed_precision="{"fp16" if older else "bf16"}"`'
                    if settings
                    else "Run the forward pass under `torch.autocast(..., "
                    f"dtype=torch.{'float16' if older else 'bfloat16'})`"
                ),
            )


def _is_decided_elsewhere(script: Script, settings: list[Setting]) -> bool:
    """True if an engine, a policy or ``accelerate config`` decides the precision, or may."""
    if script.imports_package(*_DECIDING) or script.may_use(*_POLICIES):
        return True
    launched = script.launcher.mixed_precision == "no"
    # What the user's ``accelerate config`` says decides where nothing is written.
    return not all(
        setting.value in ("no", "NO") or (launched and setting.given is False)
        for setting in settings
    )


def float32_loads(script: Script) -> Iterator[tuple[LoopModel, bool]]:
    """Models of loops whose weights may be held in float32 for nothing, and whether they are
    frozen under an adapter (MEM401)."""
    if not script.on_gpu or script.may_use("GradScaler"):
        return
    for model in script.loop_models:
        if not [one for one in script.casts_of(model.facts) if one != FLOAT32]:
            yield model, model.facts.peft is True


def upcast_models(script: Script) -> Iterator[Finding]:
    """``model.float()`` in a script whose loop trains the model (MEM401)."""
    for model, _ in float32_loads(script):
        given = script.given_dtype(model.load)
        half = given is not None and script.dtype_name(given) in ("torch.bfloat16", "torch.float16")
        for call in script.calls_on(model.facts, "float"):
            if is_elsewhere(call.node):
                continue
            if half and model.facts.quantized is False and not call.conditional:
                yield Finding(
                    call.span,
                    "casts the weights to float32: 4 bytes a parameter where bfloat16 needs 2",
                    advise("Leave the weights as they are loaded, and compute under autocast"),
                )


def larger_evaluation_loops(script: Script) -> Iterator[Finding]:
    """Evaluation loaders with larger batches than training's, over full logits (MEM207)."""
    if not any(_evaluates_logits(script, model) for model in script.loop_models):
        return
    loaders = [dataset for dataset in script.datasets if dataset.loader is not None]
    most = _most_rows_trained(loaders)
    for data in loaders if most is not None else ():
        rows = _rows(data)
        if data.purpose is not Purpose.EVALUATION or rows is None or most is None:
            continue
        if _EVALUATED * rows > _TRAINED * most and not is_elsewhere(data.call.node):
            yield _larger_evaluation(script, data, rows, most)


def _most_rows_trained(loaders: list[Dataset]) -> int | None:
    """The most rows that training takes at a time; None where that is not known."""
    training = [_rows(loader) for loader in loaders if loader.purpose is Purpose.TRAINING]
    known = [rows for rows in training if rows is not None]
    return max(known) if known and len(known) == len(training) else None


def _larger_evaluation(script: Script, data: Dataset, rows: int, most: int) -> Finding:
    node = _first_here(data.batch_size.node if data.batch_size is not None else None)
    times = _EVALUATED * rows / (_TRAINED * most)
    return Finding(
        script.span(node) if node is not None else data.span,
        f"evaluates {rows} rows at a time where it trains on {most}: its full logits take "
        f"{times:.1f} times those of training ({_EVALUATED} bytes a token and word against "
        f"{_TRAINED})",
        fix(
            f"Set `batch_size={most}`",
            set_option(script, data.call, "batch_size", str(most)),
            unsafe=True,
        ),
    )


def _rows(data: Dataset) -> int | None:
    setting = data.batch_size
    return setting.value if setting is not None and type(setting.value) is int else None


def _evaluates_logits(script: Script, model: LoopModel) -> bool:
    """True if an evaluation of the script runs the model and builds its full logits."""
    return any(
        (forward.gradients is False or forward.training is False)
        and not forward.in_training_step
        and forward.facts.load is not None
        and forward.facts.load.node is model.load.node
        and forward.gives_full_logits is True
        for forward in script.forwards
    )


def references_of_loops(script: Script) -> Iterator[Finding]:
    """Frozen copies of the trained model, whose log-probabilities need no second set of weights
    (MEM405)."""
    seen = set()
    for one in script.frozen_passes:
        policy = next((model for model in script.loop_models if model.step is one.step), None)
        copy = _second_copy(script, one.run.module, policy) if policy is not None else None
        if copy is None or copy.node in seen or copy.conditional or is_elsewhere(copy.node):
            continue
        advice = _reference_advice(script, policy) if policy is not None else None
        if advice is None:
            continue
        seen.add(copy.node)
        yield Finding(
            script.span(copy.node.func),
            "a second copy of the weights as reference, for the whole run of the loop",
            advise(advice),
        )


def _second_copy(script: Script, frozen: Value, policy: LoopModel) -> Call | None:
    """The call that made a frozen model of the policy's own weights; None for other models."""
    copy = script.copy_of(frozen)
    if copy is not None:
        return copy
    facts = script.model_facts(frozen)
    same = isinstance(facts.name, str) and facts.name and facts.name == policy.facts.name
    return facts.load if same else None


def _reference_advice(script: Script, policy: LoopModel) -> str | None:
    if policy.facts.peft:
        return "Score with `model.disable_adapter()`: the policy's base is the reference"
    if script.method_calls("generate") or script.imports_package("vllm"):
        return None
    return "Compute the reference's log-probabilities once, before training"


def frozen_models_with_autograd(script: Script) -> Iterator[Finding]:
    """References, teachers and reward models that a step runs with autograd on (MEM703)."""
    for one in script.frozen_passes:
        if one.run.gradients is True and not is_elsewhere(one.place):
            yield Finding(
                script.span(one.place),
                "a model that nothing trains runs in the training step with autograd on: its "
                "activations are kept for a gradient that nobody wants",
                advise("Run it under `torch.no_grad()`"),
            )


def _first_here(*nodes: ast.AST | None) -> ast.AST | None:
    """The first node that is of this file: those of other files have no place in it."""
    return next((node for node in nodes if node is not None and not is_elsewhere(node)), None)


__all__ = [
    "float32_loads",
    "frozen_models_with_autograd",
    "full_precision_loops",
    "larger_evaluation_loops",
    "references_of_loops",
    "unchecked_loops",
    "upcast_models",
]
