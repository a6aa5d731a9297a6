"""A hand-written training loop whose forward passes fill a key-value cache."""

from __future__ import annotations

from collections.abc import Iterator

from memlint.rule import Finding, Level, Rule, Script, Skip, edits, facts, fix, triggers

_OPTION = "use_cache"


def check(script: Script) -> Iterator[Finding]:
    for forward in script.forwards:
        if (
            forward.in_training_loop
            and _builds_cache(forward)
            and forward.outlives_backward
            and script.owner_of_checkpointing(forward.facts).on is False
            and not script.is_named(_OPTION, "past_key_values", ignore=("generate",))
            and not script.may_use("PrefixTuning")  # it hands its prefix over as a cache
        ):
            yield _finding(forward)


def _builds_cache(forward: facts.Forward) -> bool:
    """True if the model certainly builds a cache, when given labels too.

    BART and its like drop the cache where labels are given; T5 does not.
    """
    model_facts = forward.facts
    if model_facts.load is None or not model_facts.load.name.startswith("transformers."):
        return False
    if model_facts.causal_lm or "T5ForConditionalGeneration" in model_facts.load.name:
        return True
    t5 = isinstance(model_facts.name, str) and "t5" in model_facts.name.lower()
    return "Seq2SeqLM" in model_facts.load.name and t5


def _finding(forward: facts.Forward) -> Finding:
    return Finding(
        forward.span,
        "this forward pass keeps every layer's keys and values in a cache that training never "
        "reads, for as long as its outputs live",
        fix(
            f"Pass `{_OPTION}=False`",
            (edits.SetKeyword(forward.span, _OPTION, "False", beside_unpacking=True),),
            # Code of others need not take the keyword.
            unsafe=any(load.loads_own_code for load in forward.facts.loads),
        ),
    )


RULE = Rule(
    level=Level.WASTE,
    summary="a training loop's forward passes build a key-value cache",
    check=check,
    effect={"cache_in_training": False},
    skips=(Skip.UNSLOTH, Skip.VISION, Skip.TESTS),
    triggers=(triggers.STEPS, triggers.UPDATES),
)
