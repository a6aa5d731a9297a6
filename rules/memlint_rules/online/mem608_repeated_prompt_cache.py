"""A prompt's cache of keys and values, copied for every completion of its group."""

from collections.abc import Iterator

from memlint.rule import Finding, Rule, Script, Skip, advise, triggers


def check(script: Script) -> Iterator[Finding]:
    if not script.may_train:
        return
    for call in script.method_calls("batch_repeat_interleave"):
        if getattr(call.argument(0), "value", None) not in (0, 1):
            yield Finding(
                script.span(call.node.func),
                "`batch_repeat_interleave` copies the prompt's keys and values for every "
                "completion of its group",
                advise(
                    "Score completions with `memlint_runtime.shared_prompt_logprobs`, which reads "
                    "one copy; to sample, give `generate` the prompt and `num_return_sequences`"
                ),
            )


RULE = Rule(
    summary="a prompt's cache copied for every completion",
    check=check,
    skips=(Skip.TESTS,),
    triggers=(triggers.LIBRARIES, frozenset({"batch_repeat_interleave"})),
)
