"""A prompt's keys and values made without autograd, and completions trained on them."""

from __future__ import annotations

from collections.abc import Iterator

from memlint.rule import Finding, Level, Rule, Script, Skip, advise, facts, triggers


def check(script: Script) -> Iterator[Finding]:
    for forward in script.forwards:
        if forward.gradients is True and forward.in_training_step and _is_cut_off(script, forward):
            yield Finding(
                forward.span,
                "the keys and values of the prompt were made without autograd: the loss is right "
                "and its gradients are not, since none flow through the prompt",
                advise(
                    "Run the prompt with autograd on, or take `shared_prompt_logprobs` of the "
                    "runtime, which forwards it once"
                ),
            )


def _is_cut_off(script: Script, forward: facts.Forward) -> bool:
    """True if the trained model itself made the cache, where autograd was off."""
    fillers = facts.fillers_of_cache(script, forward)
    return bool(fillers) and all(
        one.gradients is False and facts.are_of_one_model(one, forward) for one in fillers
    )


RULE = Rule(
    level=Level.ERROR,
    summary="completions trained on a prompt's cache that was made without autograd",
    check=check,
    skips=(Skip.TESTS,),
    triggers=(
        triggers.LIBRARIES,
        frozenset({"past_key_values"}),
        frozenset({"no_grad", "inference_mode"}),
    ),
)
