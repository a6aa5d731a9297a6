"""Logits of all positions computed where one position, or the completion, is read."""

from collections.abc import Iterator

from memlint.rule import Finding, Fix, Rule, Script, Skip, advise, edits, facts, fix, triggers

_OPTIONS = ("logits_to_keep", "num_logits_to_keep", "past_key_values")
# Words of families that got the option with all decoders.
_LATE = ("gpt2", "gpt-neo", "gptneo", "gpt-j", "pythia", "falcon", "/opt-", "optfor", "bloom")
_READ = {
    facts.Positions.LAST: "last one are read",
    facts.Positions.SOME: "completion are read: the prompt's are in vain",
}


def check(script: Script) -> Iterator[Finding]:
    option = script.api.behaviour("logits-to-keep")
    for forward in script.forwards if option else ():
        if not _computes_all(forward) or script.fields_read(forward) != frozenset({"logits"}):
            continue
        read = facts.positions_read(script, forward)
        if read is facts.Positions.SOME and not forward.in_training_step:
            continue
        if (
            read in _READ
            and not _is_refused(script, forward)
            and not _is_tried(script, forward, option)
        ):
            yield Finding(
                script.span(forward.node.func),
                f"the logits of all positions are computed, and those of the {_READ[read]}: 0.25 "
                "GiB for each 1,024 tokens of a vocabulary of 128k in bf16",
                _fix(script, forward, option, read),
            )


def _is_refused(script: Script, forward: facts.Forward) -> bool:
    """True if the model is of a family that does not take the option at the target."""
    called = f"{forward.facts.loader} {forward.facts.checkpoint}".lower()
    some = script.api.behaviour("logits-to-keep-models") == "some"
    return some and any(word in called for word in _LATE)


def _is_tried(script: Script, forward: facts.Forward, option: str) -> bool:
    """True if the same pass is made with the option, which an older release may refuse."""
    begin = script.text(forward.call.node)[:-1]
    return any(
        option in one.call.keywords and script.text(one.call.node).startswith(begin)
        for one in script.forwards
    )


def _computes_all(forward: facts.Forward) -> bool:
    foreign = any(one.setting("trust_remote_code").value is True for one in forward.facts.loads)
    return (
        not forward.own
        and (forward.facts.is_decoder or not foreign)
        and (forward.function is not None or forward.call.in_loop)
        and forward.labels is not True
        and forward.facts.causal_lm is True
        and forward.gives_full_logits is True
        and not any(name in forward.call.keywords for name in _OPTIONS)
    )


def _fix(script: Script, forward: facts.Forward, option: str, read: facts.Positions) -> Fix:
    if read is facts.Positions.SOME:
        said = f"Pass `{option}`, the completion's tokens and one more"
        recorded = "prompt" if forward.records_gradients else "scored prompt"
        return advise(said, {"unused_logits": recorded})
    sure = forward.labels is False and _takes_option(script, forward)
    changes = edits.add_option(forward.call, option, "1") if sure else None
    return fix(f"Pass `{option}=1`", changes)


def _takes_option(script: Script, forward: facts.Forward) -> bool:
    """True if the model certainly takes the option at the target."""
    models, load = script.api.behaviour("logits-to-keep-models"), forward.facts.load
    if load is None or load.loads_own_code:
        return False
    return models == "all" or (models == "decoders" and forward.facts.is_decoder)


RULE = Rule(
    summary="logits of all positions computed, those of the last one or the completion read",
    check=check,
    effect={"unused_logits": "others"},
    skips=(Skip.UNSLOTH, Skip.OFF_CUDA, Skip.TESTS),
    triggers=(triggers.STEPS, frozenset({"logits"})),
)
