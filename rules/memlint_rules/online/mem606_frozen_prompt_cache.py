"""A prompt's keys and values made without autograd, and completions trained on them."""

from collections.abc import Iterator

from memlint.rule import Call, Finding, Level, Rule, Script, Skip, advise, facts, triggers


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
    """True if the trained model itself made the cache, where autograd was off, or the script
    takes what the layers hold off its graph."""
    fillers = facts.fillers_of_cache(script, forward)
    off = all(one.gradients is False for one in fillers) or any(
        _is_cut(script, call)
        and not script.is_in_branch(call.node)
        and script.flow.scope(call.node) is script.flow.scope(forward.node)
        and script.is_before(call.node, forward.node)
        for call in script.method_calls("detach", "detach_")
    )
    return bool(fillers) and off and all(facts.are_of_one_model(one, forward) for one in fillers)


def _is_cut(script: Script, call: Call) -> bool:
    """True if keys or values of a layer are taken off their graph, and stay where they are."""
    held, _, method = script.text(call.node.func).rpartition(".")
    stored = script.text(script.statement(call.node)).partition(" = ")[0]
    return held.endswith((".keys", ".values")) and (method == "detach_" or held in stored)


RULE = Rule(
    level=Level.ERROR,
    summary="completions trained on a prompt's cache that was made without autograd",
    check=check,
    skips=(Skip.TESTS,),
    triggers=(
        triggers.LIBRARIES,
        frozenset({"past_key_values"}),
        frozenset({"no_grad", "inference_mode", ".detach"}),
    ),
)
