"""The ways in which Accelerate shares a run over GPUs, and which of them a run can take.

Sources: ``accelerate/utils/dataclasses.py`` (the plugins of FSDP and DeepSpeed), transformers'
``integrations/deepspeed.py`` (what ``auto`` becomes), DeepSpeed's configuration reference.
"""

from __future__ import annotations

import json
import os
from typing import Any

from memlint.memory import facts
from memlint.memory.architecture import Architecture
from memlint.memory.optimizers import find_optimizer
from memlint.memory.settings import Settings
from memlint.source.bounded import read_regular
from memlint.source.record import NamedTuple

# What files that start a run say of every one; null: what the run decides.
FORMS: dict[str, dict[str, Any]] = json.loads(
    read_regular(os.path.join(os.path.dirname(__file__), "data", "launch.json"))
)
# accelerate 1.6: ``fully_shard`` (FSDP2). 1.10: ``ParallelismConfig``; transformers 4.57: its
# Trainer cuts rows by it.
_FSDP2 = ("accelerate", (1, 6))
_CONTEXTS = (("accelerate", (1, 10)), ("transformers", (4, 57)))
_LONG = 8192  # tokens of a row from which on it is worth dividing
_BUCKET = 5 * 10**8  # DeepSpeed's reduce_bucket_size, in numbers
_SHAPED = ("muon", "came", "adam_mini")  # optimizers whose step reads whole matrices


class Strategy(NamedTuple):
    """A way to share a run.

    sharding: ``ddp``, ``zero1``, ``zero2``, ``zero3``, ``fsdp`` or ``fsdp2``. host: what waits in
    host memory: ``states``, ``parameters`` (states and gradients with them), or nothing.
    contexts: GPUs over which each row is divided.
    """

    sharding: str
    host: str = ""
    contexts: int = 1

    @property
    def engine(self) -> str:
        """What Accelerate calls it: its ``distributed_type``."""
        kinds = {"zero": "DEEPSPEED", "fsdp": "FSDP"}
        return kinds.get(self.sharding[:4], "MULTI_GPU")

    @property
    def name(self) -> str:
        """As people read it: ``zero2, states on the host``."""
        host = f", {self.host} on the host" if self.host else ""
        return self.sharding + host + (f", rows over {self.contexts}" if self.contexts > 1 else "")

    def changes(self, known: Settings, gpus: int, hidden: int) -> dict[str, Any]:
        """The settings of the memory model that the strategy decides. known: all of a run's.
        hidden: the model's width."""
        values: dict[str, Any] = {"world_size": gpus, "sharding": self.sharding}
        if self.engine == "DEEPSPEED":
            options = zero_section(self, hidden)
            if known.autocast:
                # The engine casts all weights, and keeps float32 copies of those that it trains.
                values |= {"weights_dtype": known.compute_dtype, "autocast": False}
        elif self.engine == "FSDP":
            options = {"offload_params": True} if self.host else {}
            options |= {"cp_size": self.contexts} if self.contexts > 1 else {}
        else:
            options = dict(known.sharding_options) if known.sharding == "ddp" else {}
        return {**values, "sharding_options": options}


def zero_section(strategy: Strategy, hidden: int) -> dict[str, Any]:
    """DeepSpeed's ``zero_optimization`` of a strategy; sizes in numbers, as the Trainer's ``auto``
    takes them from the model's width."""
    stage = int(strategy.sharding[-1])
    bucket = min(hidden * hidden, _BUCKET)
    section: dict[str, Any] = {"stage": stage, **FORMS["zero"], "reduce_bucket_size": bucket}
    if strategy.host:
        section["offload_optimizer"] = FORMS["zero on the host"]
    if strategy.host == "parameters":
        section["offload_param"] = FORMS["zero on the host"]
    if stage == 3:
        section |= {
            "stage3_prefetch_bucket_size": int(0.9 * hidden * hidden),
            "stage3_param_persistence_threshold": 10 * hidden,
            **FORMS["zero3"],
        }
    return section


def strategies_of(
    known: Settings, architecture: Architecture, gpus: int
) -> tuple[tuple[Strategy, ...], tuple[str, ...]]:
    """Return the strategies that a run can take, and sentences on those that are left out.
    known: all of the run's settings."""
    whole = [Strategy("ddp")]
    why = _whole(known)
    if why:
        return tuple(whole), (f"only ddp: {why}",)
    without_zero, without_fsdp = _without_zero(known), _without_fsdp(known)
    found = whole + ([] if without_zero else _by_zero(known))
    found += [] if without_fsdp else _by_fsdp(known, architecture, gpus)
    said = (("no ZeRO", without_zero), ("no FSDP", without_fsdp))
    return tuple(found), tuple(f"{what}: {why}" for what, why in said if why)


def _by_zero(known: Settings) -> list[Strategy]:
    """Stages of DeepSpeed: weights of 4 bits stay whole, and its CPU steps as AdamW alone does."""
    stages = ("zero1", "zero2") if known.quantization is not None else ("zero1", "zero2", "zero3")
    found = [Strategy(stage) for stage in stages]
    if (known.optimizer or "").startswith(("adamw_torch", "adamw_hf")):
        found += [Strategy(stage, "states") for stage in stages[1:]]
        found += [Strategy(stage, "parameters") for stage in stages[2:]]
    return found


def _by_fsdp(known: Settings, architecture: Architecture, gpus: int) -> list[Strategy]:
    """FSDP of the version that the release of Accelerate has."""
    newest = facts.reaches(known.versions, _FSDP2)
    name = "fsdp2" if newest else "fsdp"
    found = [Strategy(name), Strategy(name, "parameters")]
    if newest and _may_divide_rows(known, architecture):
        found += [Strategy(name, contexts=size) for size in (2, 4, 8) if gpus % size == 0]
    return found


def _whole(known: Settings) -> str:
    """Why each GPU must hold whole weights and states; empty where it need not."""
    optimizer = find_optimizer(known.optimizer or "")
    name = known.optimizer or ""
    if optimizer is not None and (
        optimizer.factored or optimizer.rank or optimizer.in_backward or name.startswith(_SHAPED)
    ):
        return f"{name} steps on whole matrices"
    if known.streamed:
        return "the frozen base is streamed from the host"
    if known.offload == "optimizer":
        return "its optimizer keeps its states on the host itself"
    return ""


def _without_zero(known: Settings) -> str:
    if known.trainer == "loop":
        return "in a loop DeepSpeed's own file decides dtypes and clipping"
    if not known.autocast and "float32" not in (known.weights_dtype, known.compute_dtype):
        return "it needs the trainer's mixed precision (`bf16=True`)"
    return ""


def _without_fsdp(known: Settings) -> str:
    if known.quantization is not None:
        return "a quantized base needs `bnb_4bit_quant_storage`"
    optimizer = find_optimizer(known.optimizer or "")
    if optimizer is not None and (optimizer.paged or optimizer.wide_embeddings):
        return f"{optimizer.name} steps on plain tensors"
    return ""


def _may_divide_rows(known: Settings, architecture: Architecture) -> bool:
    """True if ring attention computes what the run does: causal, with no mask, of long rows."""
    return (
        known.trainer in ("transformers.Trainer", "trl.SFTTrainer")
        and known.attention == "sdpa"
        and not known.packed
        and (known.seq_len or 0) >= _LONG
        and known.head in ("lm", "none")
        and all(
            layer.attention.kind == "full" and layer.attention.causal
            for layer, _ in architecture.layers
        )
        and not architecture.towers
        and all(facts.reaches(known.versions, fact) for fact in _CONTEXTS)
    )
