"""Labels given to a model whose loss nobody reads."""

from collections.abc import Iterator

from memlint.rule import Finding, Rule, Script, Skip, facts, fix, places, triggers


def check(script: Script) -> Iterator[Finding]:
    for forward in script.forwards:
        labels = places.place_of(script, forward.call.setting("labels"))
        value = labels.value if labels is not None and _computes_loss(forward) else None
        fields = script.fields_read(forward)
        if labels is None or value is None or not fields or "loss" in fields:
            continue
        # A dict that is made before the call may be read by others.
        within = forward.span.contains(script.span(labels.owner))
        yield Finding(
            script.span(value),
            "`labels` make the model compute a cross entropy that nobody reads: a float32 copy of "
            "all logits, 0.5 GiB for each 1,024 tokens of a vocabulary of 128k",
            fix("Remove `labels`", labels.removed() if within else None),
        )


def _computes_loss(forward: facts.Forward) -> bool:
    """True if labels do no more than that: an encoder-decoder makes its inputs of them."""
    return (
        not forward.own
        and forward.labels is True
        and forward.facts.causal_lm is True
        and forward.gives_full_logits is True
    )


RULE = Rule(
    summary="labels given to a causal model whose loss nobody reads",
    check=check,
    skips=(Skip.UNSLOTH, Skip.LEARNED_PROMPTS, Skip.TESTS),
    triggers=(triggers.STEPS, frozenset({"labels"}), frozenset({"logits", "hidden_state"})),
)
