"""Training examples without a limit on their length."""

from collections.abc import Iterator

from memlint.rule import (
    MISSING,
    Finding,
    Rule,
    Script,
    Skip,
    TrainingRun,
    by_change,
    edits,
    facts,
    fix,
    recipes,
    triggers,
)

# TRL's own limit since it has one; also where the library's default is no number.
_LIMIT = 1024


def check(script: Script) -> Iterator[Finding]:
    own = any(trainer.kind.startswith("trl.") for trainer in script.all_training)
    if own or not facts.trains_language_models(script):
        return
    whole = not facts.may_shorten_rows(script)
    for one in script.tokenizations:
        rows = whole and one.from_text and one.prepares_training and not one.may_be_cut
        if rows or (one.from_text and facts.makes_long_batches(one)):
            yield from _in_tokenization(one)


def _in_tokenization(one: facts.Tokenization) -> Iterator[Finding]:
    call, truncation = one.call, one.call.setting("truncation")
    if call.has_unknown_keywords or call.setting("max_length").value not in (MISSING, None):
        return
    changes: tuple[edits.Edit, ...] = (edits.SetKeyword(call.span, "max_length", str(_LIMIT)),)
    if truncation.given is False or truncation.value is False:
        message = "tokenizes training examples without truncation: the longest sets the peak"
        changes = (edits.SetKeyword(call.span, "truncation", "True"), *changes)
    elif truncation.value is True and one.own_limit_is_useless:
        message = (
            "truncates to the tokenizer's own limit, which for this model is its whole context "
            "or none at all"
        )
    else:
        return
    made = fix(
        f"Truncate to `max_length={_LIMIT}`", changes, unsafe=True, effect={"seq_len": _LIMIT}
    )
    elsewhere = truncation.given is not False and call.keyword_node("truncation") is None
    yield Finding(call.span, message, None if elsewhere else made)


def of_run(run: TrainingRun) -> Iterator[Finding]:
    limit = run.seq_len
    if limit.is_value(None):
        message = f"{limit.said}: the longest sets the peak"
        yield Finding(limit.span, message, by_change(run.set(seq_len=recipes.DEFAULT_LENGTH)))


RULE = Rule(
    summary="training examples are not truncated",
    check=check,
    of_run=of_run,
    triggers=(
        (*triggers.ROWS, "Dataset):"),
        frozenset({"Config", "Trainer", ".backward(", "tokenizer(", ".encode", "Dataset):"}),
    ),
    skips=(Skip.VISION, Skip.DIFFUSION),
)
