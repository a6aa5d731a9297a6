"""A hand-written training loop whose forward passes fill a key-value cache."""

from collections.abc import Iterator

from memlint.rule import Finding, Rule, Script, Skip, edits, facts, fix, triggers

_OPTION = "use_cache"
# Classes whose forward drops the cache where it gets labels, or has none.
_DROPS = (
    *("Bart", "Pegasus", "Blenderbot", "FSMT", "Florence", "LED", "Mvp", "ProphetNet", "Seamless"),
    *("Blip", "PI0", "Pix2Struct", "Clvp"),
)


def check(script: Script) -> Iterator[Finding]:
    for forward in script.forwards:
        if (
            forward.in_training_loop
            and _builds_cache(forward)
            and forward.outlives_backward
            and script.owner_of_checkpointing(forward.facts).on is False
            and not script.is_named(_OPTION, "past_key_values", ignore=("generate",))
            # Another file may decide about it, too.
            and not script.sets(_OPTION)
            and all(one.setting(_OPTION).given is False for one in forward.facts.loads)
            # A prefix is handed over as a cache; Megatron's model is another, without the option.
            and not script.may_use("PrefixTuning", "MegatronLM")
        ):
            yield _finding(script, forward)


def _builds_cache(forward: facts.Forward) -> bool:
    """True if the model certainly builds a cache, when given labels too.

    BART and its like drop the cache where labels are given; T5, Whisper and decoders that see
    images do not.
    """
    loads = forward.facts.loads
    if not loads or not all(load.name.startswith("transformers.") for load in loads):
        return False
    if forward.facts.causal_lm:
        return True
    names = [load.name for load in loads]
    if all("ForConditionalGeneration" in one for one in names):
        return not any(part in one for part in _DROPS for one in names)
    return all("Seq2SeqLM" in one for one in names) and "t5" in forward.facts.checkpoint


def _finding(script: Script, forward: facts.Forward) -> Finding:
    return Finding(
        forward.span,
        "this forward pass keeps every layer's keys and values in a cache that training never "
        "reads, for as long as its outputs live",
        fix(
            f"Pass `{_OPTION}=False`",
            (edits.SetKeyword(forward.span, _OPTION, "False", beside_unpacking=True),),
            # Code of others need not take the keyword; what stands behind a cache moves up.
            unsafe=any(load.loads_own_code for load in forward.facts.loads)
            or script.moves_others(forward) is not False,
        ),
    )


RULE = Rule(
    summary="a training loop's forward passes build a key-value cache",
    check=check,
    effect={"held_cache": False},
    skips=(Skip.UNSLOTH, Skip.TESTS),
    triggers=(triggers.STEPS, triggers.TRAINING),
)
