"""Adam that keeps two float32 numbers for every weight of a full fine-tune.

Adam's states follow the dtype of the weights: float32 weights bring 8 bytes of states a parameter,
60 GiB for 8 billion, twice the weights themselves. Quantized to 8 bits they take 2 bytes. Source:
Dettmers et al., "8-bit Optimizers via Block-wise Quantization", arXiv:2110.02861; torchtune
documentation, "Memory Optimization Overview" (lower precision optimizers).
"""

from __future__ import annotations

from collections.abc import Iterator

from memlint.rule import (
    Call,
    Config,
    Finding,
    Fix,
    Level,
    Rule,
    Script,
    Skip,
    TrainingRun,
    advise,
    by_change,
    edits,
    facts,
    fix,
    triggers,
)

_FOLLOWS_WEIGHTS = ("adamw_torch", "adamw_torch_fused", "adamw_hf", "adam", "adamw")
# These keep float32 states whatever the weights are.
_FLOAT32 = ("adamw_apex_fused", "paged_adamw_32bit", "paged_adamw")
_EIGHT_BIT = "adamw_bnb_8bit"
_LOOP = {
    "torch.optim.AdamW": "bitsandbytes.optim.AdamW8bit",
    "torch.optim.Adam": "bitsandbytes.optim.Adam8bit",
    "transformers.AdamW": "bitsandbytes.optim.AdamW8bit",
}
_TAKEN = frozenset({"params", "lr", "betas", "eps", "weight_decay"})
# Billions of parameters from which on the states are worth another optimizer.
_LEAST = 0.5


def check(script: Script) -> Iterator[Finding]:
    if script.is_sharded or script.frozen_modules:
        return
    for one in script.trained:
        billions = one.facts.billions
        if not one.is_plain or (billions is not None and billions < _LEAST):
            continue
        yield from _of_config(script, one) if one.trainer else _of_loop(script, one)


def _cost(one: facts.Trained) -> str:
    if one.facts.billions is None:
        return "8 bytes a parameter where 8-bit states take 2"
    gib = one.facts.billions * 1e9 / 2**30
    return f"{8 * gib:.0f} GiB for {one.facts.billions:g} billion, {2 * gib:.0f} in 8 bits"


def _of_config(script: Script, one: facts.Trained) -> Iterator[Finding]:
    optimizer, config = one.optimizer, one.config
    if optimizer is None or config is None:
        return
    follows = optimizer.is_value(*_FOLLOWS_WEIGHTS) and one.dtype == "torch.float32"
    if not (follows or optimizer.is_value(*_FLOAT32)):
        return
    node = optimizer.node if optimizer.given else None
    yield Finding(
        script.span(node if node is not None else one.place),
        f"`{optimizer.value}` keeps two float32 numbers for every weight: {_cost(one)}",
        _set(script, config),
    )


def _set(script: Script, config: Config) -> Fix | None:
    if _EIGHT_BIT not in (script.api.choices(config.kind, "optim") or ()):
        return None
    changes = edits.set_option(script, config, "optim", f'"{_EIGHT_BIT}"')
    return fix(f'Set `optim="{_EIGHT_BIT}"` (pip install bitsandbytes)', changes, unsafe=True)


def _of_loop(script: Script, one: facts.Trained) -> Iterator[Finding]:
    """Of the one optimizer of a loop that trains one model."""
    made = script.calls_anywhere(*_LOOP)
    if one.dtype != "torch.float32" or len(script.trained) != 1 or len(made) != 1:
        return
    if not made[0].optimizes_all:
        # Muon beside it takes the matrices, for instance.
        return
    yield Finding(
        script.span(made[0].node.func),
        f"`{made[0].method}` keeps two float32 numbers for every weight: {_cost(one)}",
        _replace(script, made[0]),
    )


def _replace(script: Script, call: Call) -> Fix:
    name = _LOOP[call.name]
    message = f"Use `{name}` (pip install bitsandbytes)"
    if call.has_unknown_keywords or call.is_partial or not _TAKEN.issuperset(call.keywords):
        return advise(message)
    return fix(message, edits.replace_callee(script, call, name), unsafe=True)


def of_run(run: TrainingRun) -> Iterator[Finding]:
    optimizer, is_narrow = run.optimizer, run.weights_dtype.is_value("bfloat16")
    if optimizer.is_value("adamw_torch"):
        dtype, wide = ("bf16", 4) if is_narrow else ("fp32", 8)
        yield Finding(
            optimizer.span,
            f"Adam keeps two {dtype} states a weight: {wide} bytes, where 8-bit states take 2",
            by_change(run.set(optimizer="adamw_8bit")),
            Level.HINT if is_narrow else None,
        )


RULE = Rule(
    code="MEM501",
    name="fp32-optimizer-states",
    level=Level.WASTE,
    summary="Adam states in float32 in a full fine-tune",
    check=check,
    of_run=of_run,
    skips=(Skip.UNSLOTH, Skip.OFF_CUDA, Skip.TESTS),
    triggers=(triggers.LIBRARIES, frozenset({"Trainer", "optim"})),
    effect={"optimizer": _EIGHT_BIT},
)
