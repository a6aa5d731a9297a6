"""Training examples without a limit on their length.

One example of 20,000 tokens among many of 500 makes its step forty times as expensive, often late
in an epoch, as an out-of-memory error. Source: TRL documentation, "Reducing Memory Usage".
"""

from __future__ import annotations

from collections.abc import Iterator

from memlint.rule import (
    MISSING,
    Config,
    Finding,
    Level,
    Rule,
    Script,
    Skip,
    TrainingRun,
    advise,
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
    for config in script.configs:
        if config.kind.startswith("trl.") and script.may_train_with(config):
            yield from _in_config(script, config)
    own = any(trainer.kind.startswith("trl.") for trainer in script.all_training)
    if not own and facts.trains_language_models(script) and not facts.may_shorten_rows(script):
        for tokenization in script.tokenizations:
            if (
                tokenization.from_text
                and tokenization.prepares_training
                and not tokenization.may_be_cut
            ):
                yield from _in_tokenization(tokenization)


def _in_config(script: Script, config: Config) -> Iterator[Finding]:
    option = _unlimited(script, config)
    if option is not None and config.effective("packing").value is not True:
        yield _unlimited_finding(script, config, option)
    if config.kind != "trl.SFTConfig" or not config.skips_preparation or facts.may_truncate(script):
        return
    collators = [one.setting("data_collator") for one in script.trainers_with(config)]
    if all(collator.given is False for collator in collators):
        yield Finding(
            script.span(config.setting("dataset_kwargs").node or config.node.func),
            "`skip_prepare_dataset` skips truncation too: examples come as long as they are, "
            "whatever `max_length` says",
            advise("Truncate the examples where they are tokenized"),
        )


def _unlimited(script: Script, config: Config) -> str | None:
    """The option that should limit examples and definitely does not."""
    name = "max_length" if config.has_option("max_length") else "max_prompt_length"
    setting = config.effective(name)
    if not config.has_option(name) or not setting.is_none:
        return None
    if setting.given is not False:
        return name
    # Trainers that took the limit themselves filled in one of their own.
    trainer = script.api.signature(config.kind.removesuffix("Config") + "Trainer")
    fills_in = trainer is None or name in trainer.parameters or name != "max_length"
    return None if fills_in else name


def _unlimited_finding(script: Script, config: Config, option: str) -> Finding:
    setting = config.setting(option)
    what = "prompts" if option == "max_prompt_length" else "examples"
    given = f"`{option}=None`" if setting.given else f"no `{option}`: this version has no default"
    span = script.span(setting.node or config.node.func)
    message = f"{given} leaves {what} as long as they come: the longest sets the peak"
    if config.effective("padding_free").value is True:
        advice = advise(f"Pack (`packing=True`) with `{option}`: padding-free does not truncate")
        return Finding(span, message, advice)
    default = script.api.default(config.kind, option)
    limit = default if type(default) is int else _LIMIT
    changes = edits.set_option(script, config, option, str(limit))
    effect = {"seq_len": limit}
    return Finding(
        span, message, fix(f"Set `{option}={limit}`", changes, unsafe=True, effect=effect)
    )


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
        message = f"{limit.said}: the longest sample decides the peak"
        yield Finding(limit.span, message, by_change(run.set(seq_len=recipes.DEFAULT_LENGTH)))


RULE = Rule(
    code="MEM101",
    name="unbounded-sequence-length",
    level=Level.WASTE,
    summary="training examples are not truncated",
    check=check,
    of_run=of_run,
    triggers=(triggers.ROWS, frozenset({"Config", "Trainer", ".backward(", "tokenizer("})),
    skips=(Skip.VISION, Skip.DIFFUSION),
)
