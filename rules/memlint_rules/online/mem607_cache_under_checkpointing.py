"""A cache of keys and values given to a model that checkpoints its activations."""

from collections.abc import Iterator

from memlint.rule import Finding, Level, Rule, Script, Skip, advise, facts, triggers


def check(script: Script) -> Iterator[Finding]:
    for forward in script.forwards:
        cached = _trains(forward) and facts.gets_cache(forward)
        if cached and script.owner_of_checkpointing(forward.facts).on is True:
            yield Finding(
                forward.span,
                "activation checkpointing drops `past_key_values` in training mode: the tokens are "
                "trained without what was cached, or the step stops",
                advise(
                    "Forward prompt and completion together, or take `shared_prompt_logprobs` of "
                    "the runtime, which works with checkpointing"
                ),
            )


def _trains(forward: facts.Forward) -> bool:
    """True if it certainly runs in training mode with autograd on: else nothing is checkpointed."""
    return (
        forward.in_training_step
        and forward.gradients is True
        and forward.training is True
        and not forward.own
        and forward.facts.load is not None
    )


RULE = Rule(
    level=Level.ERROR,
    summary="a key-value cache given to a training forward pass with activation checkpointing",
    check=check,
    skips=(Skip.UNSLOTH, Skip.TESTS),
    triggers=(triggers.LIBRARIES, frozenset({"past_key_values"}), frozenset({"checkpointing"})),
)
