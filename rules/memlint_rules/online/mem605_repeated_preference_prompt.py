"""A prompt that goes through the model once for the chosen and once for the rejected answer."""

from collections.abc import Iterator

from memlint.rule import Finding, Level, Rule, Script, Skip, Trainer, triggers
from memlint_rules.online.shared_prompts import share_prompts

_PAYS = 1.3  # below this, packing the tree costs about what it saves


def check(script: Script) -> Iterator[Finding]:
    # Nobody moves a project to another TRL for so little.
    current = script.api.behaviour("shared-prompt-trainers") == "drop-in"
    for trainer in script.repeating_trainers("trl.DPOTrainer") if current else ():
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
            f"{rho:.2f} times the tokens that sharing it takes, where both are as long as they may "
            f"be: prompts of {prompt:,} and answers of {answer:,} tokens",
            shared._replace(effect=(("prompt_len", prompt), ("shared_prompt", True))),
        )


def _lengths(script: Script, trainer: Trainer) -> tuple[int, int] | None:
    """Longest prompt and answer where the script itself says them; defaults say nothing, and an
    option of older releases nothing of what prompts will be cut to."""
    config = trainer.config
    if config is None or config.setting("max_prompt_length").given is not False:
        return None
    whole, prompt = config.setting("max_length").value, script.prompt_limit(trainer)
    if type(whole) is not int or prompt is None or not 0 < prompt < whole:
        return None
    return prompt, whole - prompt


RULE = Rule(
    level=Level.HINT,
    summary="a prompt forwarded for the chosen and the rejected answer",
    check=check,
    skips=(Skip.UNSLOTH, Skip.OFF_CUDA),
    triggers=(triggers.LIBRARIES, frozenset({"DPOTrainer"})),
)
