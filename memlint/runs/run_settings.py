"""A run in the memory model's words: what estimates, prices and ``--fit`` take.

What nothing says stays out, so that the memory model names it as an assumption; ``notes`` say what
is there and cannot be read.
"""

from typing import Any

from memlint.engine.answers import any_of
from memlint.engine.tensors import Output, Positions, Role
from memlint.engine.values import ABSENT, Function, Object
from memlint.runs.batches import batches_of_loop, batches_of_trainer
from memlint.runs.companions import (
    companions_of,
    frozen_models,
    generation_of_loop,
    loss_of,
    reference_of,
)
from memlint.runs.devices import SHORT, accelerated, devices_of
from memlint.runs.frozen import frozen_of
from memlint.runs.loadings import (
    adapter_of,
    loading_by_name,
    loading_by_unsloth,
    loading_of,
    rounded_copies,
)
from memlint.runs.optimizer_names import optimizer_of_loop, optimizer_of_trainer
from memlint.runs.own_models import own_facts, own_model
from memlint.runs.plain_options import (
    Either,
    Options,
    calls_anywhere,
    dtype_in,
    made_by_call,
    mapping_of,
    options_of,
    settled,
)
from memlint.script.called import Call
from memlint.script.calls import Config, Trainer
from memlint.script.checkpointing import ARGUMENTS, ENABLERS, KBIT_PREPARATION
from memlint.script.forward_passes import Step, all_steps_of
from memlint.script.loaded_models import ModelFacts, model_facts
from memlint.script.model import Script
from memlint.script.owners import Owner
from memlint.source.patterns import lazy_pattern

_TRAINERS = frozenset(
    f"{kind}Trainer" for kind in ("SFT", "DPO", "ORPO", "CPO", "KTO", "Reward", "GRPO", "RLOO")
)
# What functions of the runtime change.
_RUNTIME: dict[str, Options] = {
    **{one: {"loss": "liger", "head_in_tiles": True} for one in ("fuse", "fuse_causal_lm_loss")},
    "fuse_trl_losses": {"loss": "liger"},
    "checkpoint_activations": {"checkpointing": "full"},
    "offload_activations": {"offload": "activations"},
    **{one: {"streamed": True} for one in ("load_streamed", "stream_frozen_weights")},
    "tile_mlp": {"tiled_mlp": True},
}
# Torch's own makes its gradients in the forward pass, as Liger's does.
_LOSSES = {Owner.TORCHTUNE: "chunked"} | dict.fromkeys(
    (Owner.LIGER, Owner.CUT_CROSS_ENTROPY, Owner.TORCH), "liger"
)
# Contexts under which saved activations wait in the host's memory.
_HOSTS = (".save_on_cpu", ".OffloadActivations", ".get_act_offloading_ctx_manager")
_GROWING = lazy_pattern(r"expandable_segments\s*:\s*True")
# What keeps some activations and computes the others again.
_SELECTS = ("activation_memory_budget", "create_selective_checkpoint_contexts")
_PARTS = ("split", "chunk", "tensor_split")
# What runs an MLP tile by tile: of DeepSpeed, which axolotl uses, and of Liger.
_TILED = ("TiledMLP", "LigerTiledSwiGLUMLP", "LigerTiledGEGLUMLP")
_MIXES = (".autocast", "accelerate.Accelerator", "lightning.Fabric", "deepspeed.initialize")
_MIXED = "mixed_precision"
_UNMIXED = "Accelerate's default: no mixed precision, unless what launches it chooses one"
_LOSS = ("cross_entropy", "CrossEntropyLoss.__call__", "log_softmax", "nll_loss", "logsumexp")
_SWITCHES: dict[str, Options] = {
    "use_liger_kernel": {"loss": "liger"},
    "activation_offloading": {"offload": "activations"},
    "torch_compile": {"compile": True},
}


def settings_of(script: Script) -> dict[str, Any] | None:
    """Return the settings of the script's training, as JSON has them; None where none is found.

    A script with several trainers is read by its last one.
    """
    # Who pins an older release keeps a trainer that the newest no longer has.
    gone = [one for one in script.trainers if one.trains and _trains_values(one)]
    if training := script.training or gone:
        return settings_of_trainer(script, training[-1])
    trains = script.loops or any(one.steps for one in script.all_forwards)
    return settings_of_loop(script) if trains else None


def settings_of_trainer(script: Script, trainer: Trainer) -> Options:
    """Return the settings of what one trainer trains."""
    kind, config, facts = trainer.kind.rpartition(".")[2], _config(script, trainer), trainer.model
    by_trl = kind in _TRAINERS or _trains_values(trainer)
    values = joined(
        {"trainer": f"trl.{kind.replace('v2', '')}" if by_trl else "transformers.Trainer"},
        loading_by_name(script, trainer) if facts.by_name else loading_of(script, facts),
        {"shared_prompt": True} if trainer.shares_prompts else {},
        batches_of_trainer(script, trainer, config),
        _arguments(script, config) if config is not None else {},
        optimizer_of_trainer(script, trainer, config),
        # Its own steps never ask whether activations are to be computed again.
        {"checkpointing": "none"} if _trains_values(trainer) else {},
        {"loss": "chunked"} if trainer.settled("loss_type") == "chunked_nll" else {},
        _recomputed(script, trainer.model) if trainer.checkpointed_by_call else {},
        reference_of(script, trainer, config),
    )
    return _finished(script, values, facts, trainer)


def _trains_values(trainer: Trainer) -> bool:
    """True if it is PPO's, as it has been since it gets a model of values."""
    return trainer.is_kind("PPOTrainer", "PPOv2Trainer") and bool(
        trainer.setting("value_model").given
    )


def settings_of_loop(script: Script) -> Options:
    """Return the settings of what the script's loops train."""
    load = _trained_load(script)
    facts = model_facts(script, script.value(load.node) if load is not None else ABSENT)
    for one in script.loop_models:
        facts = one.facts if load is not None and one.load.node is load.node else facts
    loading = loading_of(script, facts)
    own = own_facts(script) if load is None or "model" not in loading else None
    read = own_model(script, own) if own is not None else {}
    if own is not None and ("model" in read or "model" not in loading):
        facts, loading = own, read
    loss = script.owner_of_loss(facts)
    values = joined(
        {"trainer": "loop"},
        _recomputed(script, facts),
        {"loss": _LOSSES[loss.owner]}
        if loss.full_logits is False and loss.owner in _LOSSES
        else {},
        loading,
        batches_of_loop(script),
        optimizer_of_loop(script),
        {"compile": True} if any(calls_anywhere(script, "torch.compile")) else {},
        {"loss": "chunked"} if _is_by_pieces(script) else {},
        generation_of_loop(script),
        _held_outputs(script),
        _zeroed(script),
        _precision_of_loop(script),
    )
    return _finished(script, values, facts, None)


def _is_by_pieces(script: Script) -> bool:
    """True if a loop gives its head the hidden states piece by piece, and never all of them."""
    turns = {loop for step in script.steps for loop in (step.node, *step.epochs)}
    cut = False
    for tensor, operation, _ in script.tensor_uses:
        if tensor.as_large_as_logits:
            return False
        hidden = tensor.role is Role.HIDDEN_STATES
        parted = operation in _PARTS or (
            tensor.positions is Positions.SOME
            and tensor.node is not None
            and not turns.issuperset(script.flow.loops_around(tensor.node))
        )
        cut = cut or (hidden and parted)
    return cut


def _held_outputs(script: Script) -> Options:
    """What steps keep of the logits of their forward passes for the next one: certainly nothing
    (``loss = model(**batch).loss``, ``del outputs``, a function that returns the loss), or a copy
    in float32 alone (``logits = model(**batch).logits.float()``); and whether a cache is kept."""
    steps = [step for step in all_steps_of(script) if step.all_forwards]
    held = [one for step in steps for one in step.held if one.holds_logits is not False]
    if steps and not held:
        return {"held_outputs": False}
    values = [value for one in held for value in one.values]
    if {getattr(value, "dtype", None) for value in values} == {"torch.float32"}:
        return {"float32_outputs": True}
    whole = any(isinstance(value, Output) for value in values)
    return {"held_cache": True} if whole and any(map(_caches, steps)) else {}


def _caches(step: Step) -> bool:
    return any(forward.builds_cache for forward in step.all_forwards)


def _zeroed(script: Script) -> Options:
    """Gradients that stay through the next forward pass: as zeros, or since they are freed between
    it and its backward pass."""
    calls = script.method_calls_anywhere("zero_grad")
    stays = all(one.setting("set_to_none").value is False for one in calls)
    for step in script.steps:
        runs = (run.invocation.order for one in step.all_forwards for run in one.runs)
        end = step.order or 0
        last = max((order for order in runs if order < end), default=end)
        stays = stays or all(last < one.order < end for one in calls)
    return {"zeroed_gradients": True} if calls and stays else {}


def _recomputed(script: Script, facts: ModelFacts) -> Options:
    """What a script's calls compute again; torch's own means may keep some of it."""
    owner, on = script.owner_of_checkpointing(facts)
    if _runs(script, *ENABLERS, KBIT_PREPARATION) is False:
        return {}
    selects = "selective" if script.may_use(*_SELECTS[on is True :]) else "full"
    if owner is not Owner.SCRIPT or on is True or _recomputes_losses(script):
        return {"checkpointing": selects if on else "none"}
    notes = {"checkpointing": "the script itself chooses what is computed again"}
    return {"checkpointing": selects, "notes": notes}


def _runs(script: Script, *names: str) -> bool | None:
    """True if a call of such a name runs where defaults hold, or may; None without a call."""
    answers = [script.runs_by_default(one.node) for one in calls_anywhere(script, *names)]
    return any_of(answers) is not False if answers else None


def _recomputes_losses(script: Script) -> bool:
    """True if torch's ``checkpoint`` is given functions that compute losses, and nothing else."""
    given = [one.argument(0) for one in calls_anywhere(script, "checkpoint.checkpoint")]
    losses = {one.function for one in script._run.invocations if one.name.endswith(_LOSS)}
    return bool(given) and all(isinstance(one, Function) and one.node in losses for one in given)


def joined(*parts: Options) -> Options:
    """Return settings of which the later ones count; notes are kept side by side."""
    values: Options = {}
    for more in parts:
        notes = {**values.get("notes", {}), **more.get("notes", {})}
        values |= {**more, **({"notes": notes} if notes else {})}
    return values


def _finished(
    script: Script, values: Options, facts: ModelFacts, trainer: Trainer | None
) -> Options:
    """The settings with what is decided beside a trainer or a loop, in other files too."""
    config = _config(script, trainer) if trainer is not None else None
    if values.get("checkpointing") != "selective" and _runs(script, *ENABLERS):
        values["checkpointing"] = "full"
    if script.matches(_GROWING):
        values["expandable"] = True
    if any(name.endswith(_TILED) for _, _, name in script.imports):
        values["tiled_mlp"] = True
    if any(calls_anywhere(script, *_HOSTS)):
        values["offload"] = "activations"
    values = joined(
        values,
        rounded_copies(script),
        devices_of(script, config),
        loss_of(script, trainer, values),
        companions_of(script, facts, trainer),
    )
    # The trainers' option applies all of Liger's kernels, the runtime's loss none of them.
    by_liger = values.get("loss") == "liger" and trainer is not None
    for call in script.library_calls("memlint_runtime"):
        effect = _RUNTIME.get(call.method, {})
        tiled = "loss" in effect and values["trainer"].startswith("trl.")
        values |= {**effect, "loss": "chunked"} if tiled else effect
    values = joined(values, loading_by_unsloth(script), _trained(script, facts, trainer))
    if "quantization" in values:
        values |= _prepared(script, trainer, values["quantization"])
    values |= _adapted_by_engine(script, values)
    values["versions"] = script.api.target.releases
    if by_liger:
        values["versions"]["liger_kernel"] = "newest"
    return values


def _adapted_by_engine(script: Script, values: Options) -> Options:
    """What becomes of adapters under DeepSpeed: its engine casts all that it gets. TRL's trainers
    of today have checkpointing reentrant where ZeRO-3 shards their base."""
    changed: Options = {}
    if "lora" not in values or not values.get("sharding", "").startswith("zero"):
        return changed
    by_trl = values["trainer"].startswith("trl.") and script.api.behaviour("trl-checkpointing")
    sharded = values["sharding"] == "zero3" and values.get("checkpointing") == "full"
    if sharded and by_trl == "non-reentrant":
        changed["checkpointing"] = "reentrant"
    if values.get("autocast") is False and "compute_dtype" in values:
        changed["lora"] = {**values["lora"], "dtype": values["compute_dtype"]}
    return changed


def _trained(script: Script, facts: ModelFacts, trainer: Trainer | None) -> Options:
    """What is trained: adapters, all weights, or those that nothing freezes."""
    adapted = _is_adapted(script, facts, trainer)
    if adapted is False:
        return joined({"method": "full"}, frozen_of(script, facts))
    given = trainer.setting("peft_config").value if trainer is not None else None
    values: Options = {"method": "lora", "lora": adapter_of(script, facts, given)}
    if adapted is None:
        values["notes"] = {"method": "a switch that is not known decides whether it has adapters"}
    if trainer is not None and trainer.settled("disable_dropout") is True:
        values["lora"]["dropout"] = 0.0
    return values


def _is_adapted(script: Script, facts: ModelFacts, trainer: Trainer | None) -> bool | None:
    """True if adapters are trained where defaults hold; None where a switch is not known."""
    peft = trainer.peft if trainer is not None else facts.peft
    if peft is True:
        return True
    given = settled(script, trainer.setting("peft_config")) if trainer is not None else None
    calls = [*calls_anywhere(script, ".get_peft_model", ".add_adapter")]
    wrapped = any_of(script.runs_by_default(call.node) for call in calls)
    if isinstance(given, Object) or wrapped:
        return True
    if wrapped is None:
        return True if peft is False else None
    return None if isinstance(given, Either) else False


def _prepared(script: Script, trainer: Trainer | None, quantization: Options) -> Options:
    """PEFT's preparation, where the script calls it: it turns checkpointing on as well. TRL's
    trainers of some releases prepare by themselves, others never do."""
    calls = [*calls_anywhere(script, KBIT_PREPARATION)]
    own = not calls and trainer is not None and trainer.kind.startswith("trl.")
    known = {} if own else {"kbit_preparation": bool(calls)}
    again = [options_of(call).get("use_gradient_checkpointing", True) is True for call in calls]
    values: Options = {"method": "qlora", "quantization": {**quantization, **known}}
    return values | ({"checkpointing": "full"} if any(again) else {})


def _config(script: Script, trainer: Trainer) -> Config | None:
    """A trainer's configuration, one that another file of the project makes too."""
    made = trainer.args.value
    if trainer.config is not None or not isinstance(made, Object) or made.root.type is None:
        return trainer.config
    call = made_by_call(script, made.root)
    return Config(script, call.invocations, [made]) if call is not None else None


def _arguments(script: Script, config: Config) -> Options:
    values: Options = {}
    on = config.checkpointing
    if on is not None:
        values["checkpointing"] = "full" if on else "none"
    for name in ARGUMENTS if on else ():
        values |= _checkpointed_by(mapping_of(script, config.setting(name).value) or {})
    mixed = {name: config.settled(short) for short, name in SHORT.items()}
    if all(one.value is False for one in mixed.values()):
        values["autocast"] = False  # the weights' own dtype
    for dtype in [name for name, one in mixed.items() if one.is_value(True)][:1]:
        values |= {"compute_dtype": dtype, "autocast": True}
    for name, meant in _SWITCHES.items():
        values |= meant if config.settled(name).is_value(True) else {}
    return values


def _checkpointed_by(options: Options) -> Options:
    """What the keywords of checkpointing say of its kind."""
    if options.get("use_reentrant") is True:
        return {"checkpointing": "reentrant"}
    if "context_fn" in options:
        return {"checkpointing": "selective"}
    waits = options.get("offload") is True and "use_reentrant" not in options
    return {"offload": "activations"} if waits else {}


def _trained_load(script: Script) -> Call | None:
    """What loads the model that a loop trains: the last that may be, where several are loaded."""
    trained = {one.load.node for one in script.loop_models}
    frozen = {one.load.node for one in frozen_models(script) if one.load is not None} - trained
    loads = [load for load in script.model_loads if load.node not in frozen]
    steps = [forward for forward in script.all_forwards if forward.steps]
    more = [load for forward in steps for load in forward.facts.loads if load.node not in frozen]
    return next(reversed([one for one in loads if one.node in trained] or loads or more), None)


def _precision_of_loop(script: Script) -> Options:
    models = [forward for one in script.loop_models for forward in one.forwards]
    steps = [forward for forward in script.all_forwards if forward.steps]
    mixed = {forward.autocast for forward in models or steps}
    name = dtype_in(str(next(iter(mixed)))) if len(mixed) == 1 else None
    converts = accelerated(script)
    if name := converts or name:
        outputs = {"float32_outputs": True} if converts else {}
        return {"compute_dtype": name, "autocast": True, **outputs}
    mixing = list(calls_anywhere(script, *_MIXES))
    left = (each.method == "Accelerator" and each.setting(_MIXED).given is False for each in mixing)
    notes = {"notes": {"compute_dtype": _UNMIXED}} if mixing else {}
    return {"autocast": False, **notes} if all(left) else {}
