"""A large frozen base in 16 bits under an adapter, where 4 bits would do.

Under an adapter the base is only read. In bf16 it takes 2 bytes a parameter, 15 GiB for 8 billion;
quantized to 4 bits (NF4) a quarter of that. Each layer is unpacked when it is used, which costs
time. Source: Dettmers et al., "QLoRA: Efficient Finetuning of Quantized LLMs", arXiv:2305.14314.
"""

from __future__ import annotations

from collections.abc import Iterator

from memlint.rule import (
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

# Billions of parameters.
_LEAST = 1.0
_OPTION = "quantization_config"


def check(script: Script) -> Iterator[Finding]:
    if script.is_sharded:
        return
    for one in script.trained:
        billions, family = one.facts.billions, one.facts.family
        if one.peft is not True or billions is None or billions <= _LEAST:
            continue
        if family.has("stored_quantized") or family.experts:
            continue
        if not (_loads_plain(script, one) or _names_plain(one)):
            continue
        width = 4 if one.dtype == "torch.float32" else 2
        yield Finding(
            script.span(one.load.node.func if one.load is not None else one.place),
            f"a frozen base of {billions:g} billion weights at {width} bytes each: "
            f"{billions * width * 1e9 / 2**30:.0f} GiB, {billions * 0.55e9 / 2**30:.0f} in 4 bits",
            _fix(script, one),
        )


def _loads_plain(script: Script, one: facts.Trained) -> bool:
    load = one.load
    return load is not None and script.is_quantized(load) is False and not load.has_unknown_keywords


def _names_plain(one: facts.Trained) -> bool:
    """True if a trainer loads its model by name, and is told nothing of how."""
    holders = [holder for holder in (one.trainer, one.config) if holder is not None]
    settings = [holder.setting("model_init_kwargs") for holder in holders]
    return one.facts.by_name and all(each.given is False or each.is_none for each in settings)


def _fix(script: Script, one: facts.Trained) -> Fix:
    message = "Load the base in 4 bits: `BitsAndBytesConfig(load_in_4bit=True, ...)`"
    load = one.load
    if load is None or script.method_calls_anywhere("merge_and_unload"):
        return advise(message)
    config = edits.reference_to(script, "transformers.BitsAndBytesConfig", load.node)
    dtype = edits.reference_to(script, "torch.bfloat16", load.node)
    if config is None or dtype is None:
        return advise(message)
    source = (
        f'{config.text}(load_in_4bit=True, bnb_4bit_quant_type="nf4", '
        f"bnb_4bit_compute_dtype={dtype.text})"
    )
    changes = edits.set_option(script, load, _OPTION, source)
    whole = (*changes, *config.edits, *dtype.edits) if changes is not None else None
    return fix(message, whole, unsafe=True)


def of_run(run: TrainingRun) -> Iterator[Finding]:
    base = run.quantization
    if base.is_value(None):
        yield Finding(base.span, base.said, by_change(run.set(quantization="nf4")))


RULE = Rule(
    code="MEM407",
    name="unquantized-base",
    level=Level.HINT,
    summary="a large frozen base in 16 bits under an adapter",
    check=check,
    of_run=of_run,
    on_request=True,
    skips=(Skip.UNSLOTH, Skip.OFF_CUDA),
    triggers=(triggers.LIBRARIES, frozenset({"peft", "Lora"})),
    effect={"method": "qlora", "quantization": {"bits": 4, "type": "nf4"}},
)
