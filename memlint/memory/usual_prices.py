"""What findings save where nobody knows the run: in a usual model of the size that a name says, or
for a stated number of tokens, or of weights."""

import math
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from memlint.api.knowledge.sizes import billions
from memlint.memory.checkpoints import find_config, with_head
from memlint.memory.prices import Priced, Run, effect_of, guessed, read_run
from memlint.memory.settings import parse_assumption, read_settings
from memlint.memory.trainer_kinds import kind_of
from memlint.rule.findings import Finding, Level
from memlint.rule.savings import Pricing, Saving

# What stands in for a language model that the table does not know, by billions of parameters.
_STAND_INS = {
    0.6: "Qwen/Qwen3-0.6B",
    1.2: "meta-llama/Llama-3.2-1B",
    3.2: "meta-llama/Llama-3.2-3B",
    8: "meta-llama/Llama-3.1-8B",
    70: "meta-llama/Llama-3.1-70B",
}
_MODEL = "meta-llama/Llama-3.1-8B"
_TOKENS = 4096  # of fewer, a loss without logits may need more than one with them
# Effects of so many bytes for each weight, in float32, and the phase.
_OF_WEIGHTS = {"bucket_copies": "from the first backward pass on", "checkpoint_on_gpu": "load"}
# Effects that grow with the tokens of a batch, with what a run has that they change.
_OF_TOKENS: dict[str, dict[str, object]] = {
    **{name: {} for name in ("loss", "held_outputs", "checkpointing", "reentrant")},
    **{name: {} for name in ("graph_in_evaluation", "unused_logits")},
    "held_cache": {"held_cache": True},
    "logits_copies": {"logits_copies": 2},
    "attention": {"attention": "eager"},
    "compute_dtype": {"weights_dtype": "float32", "compute_dtype": "float32", "autocast": False},
}
_OF_LAYERS = ("checkpointing", "reentrant", "padding", "packed", "attention", "compute_dtype")
# Its optimizer's step is never the fullest phase.
_USUAL: dict[str, object] = {
    "model": _MODEL,
    "trainer": "loop",
    "method": "full",
    "optimizer": "sgd",
    "gradient_accumulation": 2,
    "loss": "full_logits",
    "checkpointing": "none",
}


def price_as_usual(
    values: Mapping[str, Any], findings: Sequence[Finding], pricing: Pricing
) -> Priced:
    """The findings of a run whose model's shape is not known. values: its settings."""
    found = _by_stand_in(values, findings, pricing).findings
    if values.get("head", "lm") != "lm":
        return Priced(found)
    # What a trainer trains may be no language model, which a loop's findings are about.
    return Priced(with_unit_prices(found, layers=values.get("trainer") == "loop"))


def _by_stand_in(
    values: Mapping[str, Any], findings: Sequence[Finding], pricing: Pricing
) -> Priced:
    """The findings with what each saves in a usual language model of the size that the name of the
    trained one says; as they are where it may be no language model."""
    trainer = str(values.get("trainer"))
    assumed = dict(parse_assumption(each) for each in pricing.assumptions)
    model = assumed.get("model") or values.get("model") or ""
    if not isinstance(model, str) or not (kind_of(trainer).tiled or values.get("head") == "lm"):
        return Priced(list(findings))
    sizes = filter(None, map(billions, reversed(model.replace("\\", "/").split("/"))))
    size = next(sizes, 8)
    name = _STAND_INS[min(_STAND_INS, key=lambda one: abs(math.log(one / size)))]
    others = tuple(each for each in pricing.assumptions if not each.startswith("model="))
    run = read_run({**values, "model": name}, pricing._replace(assumptions=others))
    said = f"for a {name.rpartition('/')[2]} "
    return Priced(list(findings)) if run is None else guessed(run, findings, said)


def with_unit_prices(findings: Sequence[Finding], *, layers: bool = True) -> list[Finding]:
    """The findings, with a price for a stated unit where they have none. Hints have none. layers:
    whether what layers keep has one too, as logits have."""
    return [
        each._replace(saving=each.saving or _price(each, layers=layers))
        if each.level is not Level.HINT
        else each
        for each in findings
    ]


def _price(finding: Finding, *, layers: bool) -> Saving | None:
    effect, said = dict(finding.effect), f" of a {_MODEL.rpartition('/')[2]}"
    for name, phase in _OF_WEIGHTS.items():
        if name in effect:
            size = 4 * 10**9
            return Saving(size, size, phase, at="for each billion weights in float32")
    if not (layers or effect.keys().isdisjoint(_OF_LAYERS)):
        return None
    if padding := "none" if effect.get("packed") is True else effect.get("padding"):
        rows = {"micro_batch": 8, "seq_len": 512, "head": "none", "checkpointing": "full"}
        saving = _run(tuple(rows.items())).usual_saving(str(padding))
        return saving and saving._replace(at=saving.at + said)
    base = next((more for name, more in _OF_TOKENS.items() if name in effect), None)
    if base is None:
        return None
    run = _run((("micro_batch", 1), ("seq_len", _TOKENS), *base.items()))
    saving = run.saved_apart(effect) or run.saving(effect_of(finding, run.known))
    return saving and saving._replace(at=(saving.at or f"for {_TOKENS:,} tokens") + said)


@cache
def _run(settings: tuple[tuple[str, object], ...]) -> Run:
    """A usual model with these settings, as a loop trains it."""
    known = read_settings({**_USUAL, **dict(settings)})
    return Run(known, with_head(find_config(_MODEL), known.head, 0))
