"""Fills in what nobody set, and names each thing it took.

The defaults are the libraries' own where they have one; else what most runs use. An assumption
names the key that settles it: ``--assume seq_len=4096``.
"""

from __future__ import annotations

from typing import Any

from memlint.memory import facts
from memlint.memory.architecture import Architecture
from memlint.memory.settings import Lora, Quantization, Settings
from memlint.memory.sharding import plain_options, unread
from memlint.memory.weights import matches
from memlint.source.record import Plain

# Families whose published checkpoints are in float32 and whose configurations name no dtype.
_STORED_IN_FLOAT32 = frozenset(
    ("gpt2", "gpt_neo", "bert", "roberta", "xlm-roberta", "distilbert", "electra", "deberta",
     "deberta-v2", "vit", "deit", "t5", "mt5", "bart", "mbart", "pegasus", "marian", "whisper")
)  # fmt: skip


class Assumption(Plain):
    """A setting that was not given: what was taken for it, why, and the flag that settles it."""

    name: str
    value: Any
    reason: str

    @property
    def flag(self) -> str:
        return f"--assume {self.name}={self.value}"

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "value": self.value, "reason": self.reason, "flag": self.flag}


class Known(Plain):
    """Settings without a ``None`` that matters, and the assumptions made on the way."""

    settings: Settings
    assumptions: tuple[Assumption, ...]


def assume(settings: Settings, architecture: Architecture) -> Known:
    """Complete the settings."""
    taken: list[Assumption] = []
    changes: dict[str, Any] = {}

    def take(name: str, value: Any, reason: str, *, quiet: bool = False) -> None:
        if getattr(settings, name) is None:
            changes[name] = value
            if not quiet:
                taken.append(Assumption(name, value, reason))

    for name in architecture.unknown:
        reason = "not understood: read by the keys that most decoders share"
        taken.append(Assumption("model", name, reason))
    for name in unread(settings.sharding_options):
        reason = "not read: the estimate is the one without it"
        taken.append(Assumption(f"sharding_options.{name}", "ignored", reason))
    versions = settings.versions
    trainer = settings.trainer or "transformers.Trainer"
    ours = trainer.startswith("trl.")
    take("trainer", "transformers.Trainer", "no trainer was named")
    method = settings.method or (
        "qlora" if settings.quantization else "lora" if settings.lora else "full"
    )
    take("method", method, "no adapter or quantization was named", quiet=method != "full")
    if trainer == "loop":
        take("micro_batch", 1, "no batch size was named")
    else:
        take("micro_batch", 8, "the Trainer's default batch size")
    _lengths(settings, architecture, trainer, take)
    take("world_size", 1, "one GPU", quiet=True)
    world = settings.world_size or 1
    take(
        "sharding",
        "ddp" if world > 1 else "none",
        "several GPUs without a strategy",
        quiet=world == 1,
    )
    take("gradient_accumulation", 1, "the Trainer's default", quiet=True)
    take("packed", False, "no packing was named", quiet=True)
    take("longest_first", False, "batches in any order", quiet=True)
    take("offload", "none", "no offload was named", quiet=True)
    take("streamed", False, "frozen weights stay on the GPU", quiet=True)
    take("head_in_tiles", False, "the loss reads a streamed head whole", quiet=True)
    take("compile", False, "no compilation was named", quiet=True)
    take("weights_dtype", _weights_dtype(settings, architecture), "the checkpoint's dtype")
    if settings.autocast is False:
        own = settings.weights_dtype or _weights_dtype(settings, architecture)
        take("compute_dtype", own, "the weights' own: no mixed precision")
    else:
        take("compute_dtype", "bfloat16", "most runs compute in bfloat16")
    new_trl = facts.reaches(versions, facts.TRL_CHECKPOINTS)
    by_option = plain_options(settings.sharding_options).get("activation_checkpointing") is True
    checkpointing = "full" if (ours and new_trl) or by_option else "none"
    take("checkpointing", checkpointing, f"{trainer}'s default", quiet=by_option)
    # sdpa cannot cap scores: such models take eager attention unless the script says otherwise.
    sdpa = facts.reaches(versions, facts.SDPA_DEFAULT) and not architecture.softcaps_scores
    take("attention", "sdpa" if sdpa else "eager", "transformers' default", quiet=True)
    fused = facts.reaches(versions, facts.FUSED_ADAMW) and trainer != "loop"
    take("optimizer", "adamw_torch_fused" if fused else "adamw_torch", "the default optimizer")
    tiled = ours and facts.reaches(versions, facts.TRL_TILES)
    take("loss", "chunked" if tiled else "full_logits", f"{trainer}'s loss")
    weights = changes.get("weights_dtype", settings.weights_dtype)
    compute = changes.get("compute_dtype", settings.compute_dtype)
    mixed = compute != "float32" and (trainer != "loop" or weights == "float32")
    take("autocast", mixed, "mixed precision by the trainer", quiet=True)
    take("shared_prompt", False, "each completion repeats its prompt", quiet=True)
    take("evaluation", False, "no evaluation was named", quiet=True)
    take(
        "reference_model",
        _reference(settings, trainer, method),
        "the trainer's default",
        quiet=True,
    )
    if method in ("lora", "qlora"):
        narrow = ours and method == "qlora" and facts.reaches(versions, facts.TRL_LEAVES_KBIT)
        changes["lora"] = _lora(settings.lora or Lora(), architecture, taken, narrow=narrow)
    if method == "qlora" or settings.quantization is not None:
        changes["quantization"] = _quantization(
            settings.quantization or Quantization(),
            architecture,
            trainer != "loop" and not (ours and facts.reaches(versions, facts.TRL_LEAVES_KBIT)),
            taken,
        )
    return Known(settings._replace(**changes), tuple(taken))


def _lengths(settings: Settings, architecture: Architecture, trainer: str, take: Any) -> None:
    if trainer == "trl.GRPOTrainer":
        take("prompt_len", 512, "no prompt length was named")
        take("completion_len", 512, "GRPO's default completion length")
        take("group_size", 8, "GRPO's default number of generations")
        take(
            "seq_len",
            (settings.prompt_len or 512) + (settings.completion_len or 512),
            "prompt and completion",
            quiet=True,
        )
        return
    if trainer == "trl.DPOTrainer" and settings.shared_prompt:
        half = (settings.seq_len or 1024) // 2
        take("prompt_len", half, "half of a row, for the prompts that pairs share")
    length = 1024 if trainer.startswith("trl.") else 2048
    limit = architecture.max_positions
    if architecture.encoder_decoder and not limit:
        limit = 512  # relative positions know no end; their tokenizers cut there
    if 0 < limit < length:
        length = limit
    reason = "TRL's default max_length" if trainer.startswith("trl.") else "no length was named"
    take("seq_len", length, reason)


def _weights_dtype(settings: Settings, architecture: Architecture) -> str:
    dtype = architecture.dtype.removeprefix("torch.")
    if dtype in ("bfloat16", "float16", "float32"):
        return dtype
    return "float32" if architecture.family in _STORED_IN_FLOAT32 else "bfloat16"


def _reference(settings: Settings, trainer: str, method: str) -> bool:
    """DPO keeps a second model unless adapters can be switched off; GRPO only with beta."""
    return trainer == "trl.DPOTrainer" and method == "full"


def _lora(lora: Lora, architecture: Architecture, taken: list[Assumption], *, narrow: bool) -> Lora:
    changes: dict[str, Any] = {}
    if lora.r is None:
        changes["r"] = 8
        taken.append(Assumption("lora.r", 8, "PEFT's default rank"))
    if lora.target_modules is None:
        changes["target_modules"] = default_targets(architecture)
        taken.append(
            Assumption(
                "lora.target_modules",
                ",".join(changes["target_modules"]),
                "PEFT's default for the family",
            )
        )
    else:
        names = sorted(_maps(architecture))
        if not any(matches(name, lora.target_modules) for name in (*names, *_TABLES)):
            reason = f"none of them is in this model, which has {', '.join(names)}"
            shown = lora.target_modules
            text = shown if isinstance(shown, str) else ",".join(shown)
            taken.append(Assumption("lora.target_modules", text, reason))
    if lora.dropout is None:
        changes["dropout"] = 0.0
    if lora.dtype is None:
        changes["dtype"] = "bfloat16" if narrow else "float32"
    return lora._replace(**changes)


_TABLES = ("embed_tokens", "lm_head")


def _maps(architecture: Architecture) -> set[str]:
    return {linear.name for layer, _ in architecture.layers for linear in layer.linears}


def default_targets(architecture: Architecture) -> tuple[str, ...]:
    """Query and value maps, or the fused one: PEFT's default for most families."""
    names = _maps(architecture)
    for pair in (("q_proj", "v_proj"), ("query", "value"), ("q", "v")):
        if set(pair) <= names:
            return pair
    for name in ("query_key_value", "c_attn", "qkv_proj", "W_pack", "Wqkv", "wqkv"):
        if name in names:
            return (name,)
    return ("q_proj", "v_proj")


def _quantization(
    quantization: Quantization, architecture: Architecture, prepares: bool, taken: list[Assumption]
) -> Quantization:
    changes: dict[str, Any] = {}
    bits = quantization.bits
    kind = quantization.type
    if bits is None:
        bits = {"int8": 8}.get(kind or "", 4)
        changes["bits"] = bits
    if kind is None:
        changes["type"] = (
            "int8"
            if bits == 8
            else (
                architecture.quantization if architecture.quantization in ("gptq", "awq") else "nf4"
            )
        )
        taken.append(Assumption("quantization.type", changes["type"], "no type was named"))
    if quantization.double_quant is None:
        changes["double_quant"] = False
    if quantization.compute_dtype is None:
        changes["compute_dtype"] = "bfloat16"
    if quantization.kbit_preparation is None:
        changes["kbit_preparation"] = prepares
        taken.append(
            Assumption("quantization.kbit_preparation", prepares, "as the trainer does it")
        )
    return quantization._replace(**changes)
