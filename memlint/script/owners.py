"""Who computes the loss, the attention and the checkpointing of a model: one answer for all rules.

``transformers`` computes a causal language model's loss from all logits; Liger, cut-cross-entropy,
TRL from some release on and the runtime do not make them; Unsloth and remote code do as they like.
"""

import ast
from enum import StrEnum

from memlint.engine.definitions import leaves_loss_to_model, own_methods
from memlint.engine.values import Object, Value, options
from memlint.flow.evaluated import query
from memlint.script import checkpointing
from memlint.script.call_settings import MISSING
from memlint.script.called import Call
from memlint.script.calls import Config, Host, Trainer
from memlint.script.loaded_models import (
    ModelFacts,
    chain_of,
    is_about,
    is_language_model,
    model_facts,
)
from memlint.source.record import NamedTuple


class Owner(StrEnum):
    """Whose code it is."""

    TRANSFORMERS = "transformers"
    TRL = "trl"
    LIGER = "liger"
    CUT_CROSS_ENTROPY = "cut cross entropy"
    TORCH = "torch"
    TORCHTUNE = "torchtune"
    RUNTIME = "memlint_runtime"
    UNSLOTH = "unsloth"
    REMOTE_CODE = "remote code"
    SCRIPT = "script"
    UNKNOWN = "unknown"


class LossOwner(NamedTuple):
    """Who computes a loss. full_logits: whether logits of all positions are made for it; None where
    that is not known. call: what makes it so, where a call does."""

    owner: Owner
    full_logits: bool | None
    call: Call | None = None


# Packages whose losses hold no full logits.
LOGIT_SAVERS = ("liger_kernel", "cut_cross_entropy")
# The one list of what replaces the loss or the head of a model: by the last part of the name.
_RUNTIME = frozenset({"fuse_causal_lm_loss", "defer_logits", "fuse_trl_losses"})
# What others call functions of their own, by the whole name.
_FUSE = frozenset({"memlint_runtime.fuse", "memlint_runtime.losses.fuse"})
_CUT = frozenset({"cce_patch", "linear_cross_entropy"})
# Torch's own loss makes no full logits where it is given options; torchtune's never does.
_CHUNKED = ("torch.nn.functional.linear_cross_entropy", "torch.nn.LinearCrossEntropyLoss")
_TORCHTUNE = "torchtune.modules.loss.LinearCrossEntropyLoss"
# Beginnings of Liger's names, which a project may export again from a module of its own.
_LIGER_PREFIXES = (
    "apply_liger_kernel",
    "_apply_liger_kernel",
    "LigerFusedLinear",
    "LigerForCausalLM",
)
_LIGER_OPTIONS = ("use_liger_kernel", "use_liger", "use_liger_loss")
# Functions of the runtime that a script's own loss is computed with.
_RUNTIME_LOSSES = (
    "token_logprobs", "token_statistics", "sequence_logprobs", "shared_prompt_logprobs"
)  # fmt: skip
# Whose model classes are transformers' own.
_MODEL_PACKAGES = ("transformers.", "modelscope.")
# TRL's trainers by the behaviour that tells how they compute their loss.
_TOPICS = {
    "SFTTrainer": "sft-loss",
    "DPOTrainer": "preference-loss",
    "KTOTrainer": "preference-loss",
    "GRPOTrainer": "policy-loss",
    "RLOOTrainer": "policy-loss",
}
# TRL's trainers whose losses are computed from full logits in every version.
_FULL_LOGITS = frozenset(
    {
        *("CPOTrainer", "ORPOTrainer", "TPOTrainer", "BCOTrainer", "PPOTrainer", "PPOv2Trainer"),
        *("OnlineDPOTrainer", "A2POTrainer"),
    }
)
_PLAIN = ("transformers.Trainer", "transformers.Seq2SeqTrainer")


@query
def uses_unsloth(script: Host) -> bool:
    """Unsloth owns checkpointing, the loss and padding of what it trains."""
    if script.imports_package("unsloth", "unsloth_zoo"):
        return True
    # ``experiment.load_unsloth_model()``: it is imported elsewhere.
    return any("unsloth" in method for method in script.nodes_by_method_anywhere)


def owner_of_loss(script: Host, of: Trainer | ModelFacts | Value) -> LossOwner:
    """Who computes the loss of a trainer, or of a model that a loop calls with labels."""
    if uses_unsloth(script):
        return LossOwner(Owner.UNSLOTH, None)
    if isinstance(of, Trainer):
        return _of_trainer(script, of)
    facts = of if isinstance(of, ModelFacts) else model_facts(script, of)
    return _patched(script, facts, None) or _of_weights(script, facts)


def _of_trainer(script: Host, trainer: Trainer) -> LossOwner:
    own = [
        leaves_loss_to_model(one)
        for one in own_methods(script._run.class_values, trainer.subclass)
        if one.name == "compute_loss"
    ]
    if trainer.setting("compute_loss_func").given is not False or None in own:
        return LossOwner(Owner.SCRIPT, None)
    library = _of_library(script, trainer)
    if False not in own:
        return library
    # What reads the logits needs them, whoever computes the loss.
    return LossOwner(Owner.SCRIPT, library.full_logits)


def _of_library(script: Host, trainer: Trainer) -> LossOwner:
    other = _patched(script, trainer.model, trainer) or _liger_option(trainer)
    if other is not None:
        return other
    if trainer.kind.startswith("trl."):
        return _of_trl(script, trainer)
    if trainer.kind not in _PLAIN:
        return LossOwner(Owner.UNKNOWN, None)
    return _of_weights(script, trainer.model)


def _of_trl(script: Host, trainer: Trainer) -> LossOwner:
    if trainer.shares_prompts:
        return LossOwner(Owner.RUNTIME, False)
    name = trainer.kind.rpartition(".")[2]
    topic = _TOPICS.get(name)
    if topic is None:
        return LossOwner(Owner.TRL, True if name in _FULL_LOGITS else None)
    if script.api.behaviour(topic) != "full logits":
        return LossOwner(Owner.TRL, False)
    losses = script.api.choices("trl.SFTConfig", "loss_type") or ()
    if name != "SFTTrainer" or "chunked_nll" not in losses:
        return LossOwner(Owner.TRL, True)
    loss = trainer.settled("loss_type")
    return LossOwner(Owner.TRL, loss != "chunked_nll" if isinstance(loss, str) else None)


def _of_weights(script: Host, facts: ModelFacts) -> LossOwner:
    """The owner by what the model's code is, where nothing replaces its loss."""
    load = facts.load if facts.load is not None else facts.loads[0] if facts.loads else None
    if facts.by_name:
        return LossOwner(Owner.TRANSFORMERS, True)
    if load is None:
        return LossOwner(Owner.UNKNOWN, None)
    trusted = load.setting("trust_remote_code")
    may_bring_code = trusted.given is not False and trusted.value is not False
    if may_bring_code and not facts.family.plain_loss:
        # It is none that transformers knows, and does as transformers does in nearly all cases.
        return LossOwner(Owner.REMOTE_CODE, facts.causal_lm or None, load)
    if not load.name.startswith(_MODEL_PACKAGES):
        return LossOwner(Owner.UNKNOWN, None, load)
    causal = facts.causal_lm
    return LossOwner(Owner.TRANSFORMERS, is_language_model(load) or causal, load)


def _patched(script: Host, facts: ModelFacts, trainer: Trainer | None) -> LossOwner | None:
    for call in patching_calls_of(script):
        short = call.method
        if short in _RUNTIME or call.name in _FUSE:
            hit = _is_about(call, facts, trainer)
            if hit is not False:
                return LossOwner(Owner.RUNTIME, False if hit else None, call)
        elif call.name in _CHUNKED:
            return LossOwner(Owner.TORCH, call.setting("options").given is False, call)
        elif call.name == _TORCHTUNE:
            return LossOwner(Owner.TORCHTUNE, False, call)
        elif short in _CUT:
            return LossOwner(Owner.CUT_CROSS_ENTROPY, False, call)
        elif call.setting("fused_linear_cross_entropy").value is not False:
            return LossOwner(Owner.LIGER, False, call)
    if facts.load is not None and "Liger" in facts.load.name:
        return LossOwner(Owner.LIGER, False, facts.load)
    if script.imports_package(*LOGIT_SAVERS) and not patching_calls_of(script):
        # Something of it is used, and it is not known for what.
        return LossOwner(Owner.UNKNOWN, None)
    return None


def patches_loss(name: str) -> bool:
    """True if a call of that name may replace a model's loss or head."""
    short = name.rpartition(".")[2]
    ours = short in _RUNTIME or name in _FUSE
    others = short in _CUT or name in (*_CHUNKED, _TORCHTUNE)
    return ours or others or short.startswith(_LIGER_PREFIXES)


@query
def avoids_logits(script: Host) -> bool:
    """True if anything in the script spares full logits, for whichever model."""
    if script.imports_package(*LOGIT_SAVERS) or patching_calls_of(script):
        return True
    calls = script.method_calls_anywhere(*_RUNTIME_LOSSES)
    return any(one.name.startswith("memlint_runtime.") for one in calls)


def _is_about(call: Call, facts: ModelFacts, trainer: Trainer | None) -> bool | None:
    """True if a call gets this model or trainer; None where it gets something unknown."""
    given = [one for one in options(call.argument(0)) if isinstance(one, Object)]
    if trainer is not None and any(one.made_by in trainer.invocations for one in given):
        return True
    chains = [chain_of(one) for one in given]
    if not {one for chain in chains for one in chain}.isdisjoint(facts.objects):
        return True
    # What a function elsewhere returns may be this one.
    may_be = not given or any(chain[-1].type is None for chain in chains)
    known = bool(facts.objects) or trainer is not None
    return False if known and not may_be else None


def _may_ask_for_liger(trainer: Trainer) -> bool:
    """True if arguments out of sight may ask for Liger's loss: the version has an option for it."""
    api = trainer.script.api
    lacks = trainer.kind.startswith("trl.") and not trainer.is_kind("SFTTrainer")
    config, option = api.config_of(trainer.kind) or "", api.behaviour("liger-rl-loss")
    return trainer.args.given is not False and not (lacks and api.accepts(config, option) is False)


def _liger_option(trainer: Trainer) -> LossOwner | None:
    """A configuration that asks for Liger's loss, or may.

    The kernels that it puts into a model serve its own loss, not those that TRL computes beside it.
    """
    if trainer.kind.startswith("trl.") and trainer.kind.rpartition(".")[2] not in _TOPICS:
        return None
    config = trainer.config
    if config is None:
        return LossOwner(Owner.UNKNOWN, None) if _may_ask_for_liger(trainer) else None
    for name in _LIGER_OPTIONS:
        setting = config.setting(name)
        out = config.leaves_out(name, heeds_recipes=trainer.is_kind("SFTTrainer"))
        if out or setting.value is False or setting.value is None:
            continue
        known = setting.value is True and config.has_option(name)
        return LossOwner(Owner.LIGER if known else Owner.UNKNOWN, False if known else None)
    return None


# -- attention -------------------------------------------------------------------------------------


_ATTENTION = "attn_implementation"


def attention_of(script: Host, facts: ModelFacts, config: Config) -> str | None:
    """The attention that a model is loaded with: ``sdpa``, ``flash_attention_2``, ...; ``default``
    where the library chooses; None where that is not known."""
    if uses_unsloth(script):
        return None
    if facts.by_name:
        return _given_by_name(script, config)
    load = facts.load
    if load is None or load.setting("config").given or not load.name.startswith("transformers."):
        return None
    if load.setting("trust_remote_code").value is True:
        return None
    old = load.setting("use_flash_attention_2")
    if old.given is not False:
        return "flash_attention_2" if old.value is True else None
    setting = load.setting(_ATTENTION)
    if setting.given is False:
        return "default"
    return setting.value if isinstance(setting.value, str) else None


def _given_by_name(script: Host, config: Config) -> str | None:
    """The attention of a model that a trainer loads by its name."""
    value = script.item(config.setting("model_init_kwargs").value, _ATTENTION)
    return "default" if value is MISSING else value if isinstance(value, str) else None


# -- checkpointing ---------------------------------------------------------------------------------


class CheckpointingOwner(NamedTuple):
    """Who recomputes activations. on: None where that is not known."""

    owner: Owner
    on: bool | None


def owner_of_checkpointing(script: Host, facts: ModelFacts) -> CheckpointingOwner:
    """Who recomputes a model's activations by a call of the script."""
    if uses_unsloth(script):
        return CheckpointingOwner(Owner.UNSLOTH, None)
    for call in script.method_calls_anywhere(*checkpointing.ENABLERS):
        hit = is_about(script, call, facts)
        if hit is not False:
            off = bool(script.method_calls_anywhere(*checkpointing.DISABLERS))
            return CheckpointingOwner(Owner.TRANSFORMERS, None if off or not hit else True)
    for call in script.calls_anywhere(*checkpointing.PREPARATIONS):
        on = checkpointing.turns_on(script, call)
        if on is not False:
            return CheckpointingOwner(Owner.TRANSFORMERS, on)
    for call in script.method_calls_anywhere(*checkpointing.WRAPPERS):
        runtime = call.name.startswith("memlint_runtime.")
        return CheckpointingOwner(Owner.RUNTIME if runtime else Owner.SCRIPT, True)
    if checkpointing.recomputes_by_torch(script):
        return CheckpointingOwner(Owner.SCRIPT, None)
    owner = Owner.UNKNOWN if facts.load is None else Owner.TRANSFORMERS
    return CheckpointingOwner(owner, False)


@query
def patching_calls_of(script: Host) -> tuple[Call, ...]:
    """Calls that may replace a model's loss or head (Liger, cut cross entropy, the runtime)."""
    by_name = script.nodes_by_name_anywhere
    names = [name for name in by_name if patches_loss(name)]
    return tuple(script._in_order([node for name in names for node in by_name[name]]))


# -- documents in one row --------------------------------------------------------------------------

_PROMPT_LEARNING = (
    *("peft.CPTConfig", "peft.MultitaskPromptTuningConfig", "peft.PrefixTuningConfig"),
    *("peft.PromptEncoderConfig", "peft.PromptTuningConfig"),
)
ATTENTION_SETTERS = (
    "set_attn_implementation",
    "use_variable_length_attention",
    "train_without_padding",
)
_IMPLEMENTATION = "_attn_implementation"


@query
def learns_prompts(script: Host) -> bool:
    """True if an adapter of learned tokens is trained. PEFT throws positions away for them, which
    alone keep the documents of a row apart."""
    imported = any(full in _PROMPT_LEARNING for _, _, full in script.imports)
    return imported or bool(script.calls_anywhere(*_PROMPT_LEARNING))


@query
def sets_attention(script: Host) -> bool:
    """True if the script changes a model's attention by other means than its loading."""
    if script.method_calls_anywhere(*ATTENTION_SETTERS):
        return True
    return any(_IMPLEMENTATION in name for name in script.attribute_names)


@query
def attention_setters_of(script: Host) -> tuple[tuple[ast.expr, ast.expr], ...]:
    """What certainly changes the attention of a model, or of a configuration, after it is made:
    the attention, and the model or configuration."""
    found: list[tuple[ast.expr, ast.expr]] = []
    for call in script.method_calls("set_attn_implementation"):
        given = (*call.node.args, *(one.value for one in call.node.keywords))
        if given and isinstance(call.node.func, ast.Attribute) and not call.conditional:
            found.append((given[0], call.node.func.value))
    for target in script.attributes(_IMPLEMENTATION):
        assigned, holder = script.parent(target), target.value
        if isinstance(holder, ast.Attribute) and holder.attr == "config":
            # Since transformers has it, every pass reads the option.
            is_read = script.api.exists("transformers.AttentionInterface")
            holder = holder.value if is_read else target
        tried = any(isinstance(one, ast.If | ast.Try) for one in script.ancestors(target))
        if isinstance(assigned, ast.Assign) and not tried:
            found.append((assigned.value, holder))
    return tuple(found)
