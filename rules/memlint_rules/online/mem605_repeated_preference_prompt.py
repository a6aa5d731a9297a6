"""A prompt that goes through the model once for the chosen and once for the rejected answer."""

from collections.abc import Iterator

from memlint.rule import Config, Finding, Level, Rule, Script, Skip, Trainer, triggers
from memlint_rules.online.shared_prompts import share_prompts

_PAYS = 1.3  # below this, packing the tree costs about what it saves


def check(script: Script) -> Iterator[Finding]:
    for trainer in script.repeating_trainers("trl.DPOTrainer"):
        lengths = _lengths(script, trainer)
        if lengths is None:
            continue
        prompt, answer = lengths
        rho = 2 * (prompt + answer) / (prompt + 2 * answer)
        if rho < _PAYS:
            continue
        shared = share_prompts(script, trainer, "which forwards each prompt once")
        yield Finding(
            script.span(trainer.node.func),
            "`DPOTrainer` forwards each prompt for the chosen and for the rejected answer: "
            f"{rho:.2f} times the tokens that sharing it takes, for prompts of {prompt:,} and "
            f"answers of {answer:,} tokens",
            shared._replace(effect=(("prompt_len", prompt), ("shared_prompt", True))),
        )


def _lengths(script: Script, trainer: Trainer) -> tuple[int, int] | None:
    """Longest prompt and answer where the script itself says them; defaults say nothing."""
    config = trainer.config
    if config is None:
        return None
    written = _written(config, "max_prompt_length")
    prompt = written if written is not None else _prepared(script, trainer, config)
    answer = _written(config, "max_completion_length")
    whole = _written(config, "max_length")
    if prompt is None or (answer is None and whole is None):
        return None
    if answer is None:
        assert whole is not None
        answer = whole - prompt
    return (prompt, answer) if answer > 0 else None


def _prepared(script: Script, trainer: Trainer, config: Config) -> int | None:
    """The limit that the data's preparation cuts prompts to."""
    if config.has_option("max_prompt_length"):
        return None
    return script.prompt_limit(trainer)


def _written(config: Config, name: str) -> int | None:
    value = config.setting(name).value
    return value if type(value) is int and value > 0 else None


RULE = Rule(
    level=Level.HINT,
    summary="a prompt forwarded for the chosen and the rejected answer",
    check=check,
    skips=(Skip.UNSLOTH, Skip.OFF_CUDA),
    triggers=(triggers.LIBRARIES, frozenset({"DPOTrainer"})),
)
