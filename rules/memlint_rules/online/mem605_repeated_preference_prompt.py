"""A prompt that goes through the model once for the chosen and once for the rejected answer.

DPO forwards each pair as two rows, so that a prompt of P tokens before answers of C tokens costs
2 (P + C) tokens where P + 2 C would do. Source: ``trl/trainer/dpo_trainer.py``; Wang and Hegde,
"Accelerating Direct Preference Optimization with Prefix Sharing", arXiv:2410.20305.
"""

from __future__ import annotations

from collections.abc import Iterator

from memlint.rule import Config, Example, Finding, Level, Rule, Script, Trainer
from memlint_rules._libraries import LIBRARIES
from memlint_rules._shared_prompts import prompt_limit, repeating_trainers, swap

_PAYS = 1.3  # below this, packing the tree costs about what it saves


def check(script: Script) -> Iterator[Finding]:
    for trainer in repeating_trainers(script, "trl.DPOTrainer"):
        lengths = _lengths(script, trainer)
        if lengths is None:
            continue
        prompt, answer = lengths
        rho = 2 * (prompt + answer) / (prompt + 2 * answer)
        if rho < _PAYS:
            continue
        yield Finding(
            script.span(trainer.node.func),
            "`DPOTrainer` forwards each prompt for the chosen and for the rejected answer: "
            f"{rho:.2f} times the tokens that sharing it takes, for prompts of {prompt:,} and "
            f"answers of {answer:,} tokens",
            swap(script, trainer, "which forwards each prompt once"),
        )


def _lengths(script: Script, trainer: Trainer) -> tuple[int, int] | None:
    """Longest prompt and answer where the script itself says them: a default says nothing of its
    data."""
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
    return prompt_limit(script, trainer)


def _written(config: Config, name: str) -> int | None:
    value = config.setting(name).value
    return value if type(value) is int and value > 0 else None


RULE = Rule(
    code="MEM605",
    name="repeated-preference-prompt",
    level=Level.HINT,
    summary="a prompt forwarded for the chosen and the rejected answer",
    why=(
        "A preference pair is two answers to one prompt. DPO forwards it as two rows: 2 (P + C) "
        "tokens through the policy, and again through the reference, where P + 2 C carry the same "
        "information. With prompts three times as long as answers that is 1.6 times the tokens and "
        "the activations. Since every DPO script does so, this is said only where the script's "
        "own limits for prompts and answers tell that sharing pays."
    ),
    fix_safety=(
        "Safe: log-probabilities and gradients are those of the repeated prompt, up to rounding; "
        "one import changes. Unsafe, or advice only, on the terms of `MEM601`."
    ),
    check=check,
    triggers=(LIBRARIES, frozenset({"DPOTrainer"})),
    references=("https://arxiv.org/abs/2410.20305", "https://arxiv.org/abs/2305.18290"),
    examples=(
        Example(
            title="long prompts, short answers",
            bad="""\
from memlint_runtime import truncate_text
from trl import DPOConfig, DPOTrainer

limit = {"tokenizer": tokenizer, "max_length": 3072}
dataset = dataset.map(truncate_text, fn_kwargs=limit)
args = DPOConfig("out", max_length=4096)
DPOTrainer("Qwen/Qwen3-4B", args=args, train_dataset=dataset).train()
""",
            good="""\
from memlint_runtime import truncate_text
from trl import DPOConfig
from memlint_runtime.trl import DPOTrainer

limit = {"tokenizer": tokenizer, "max_length": 3072}
dataset = dataset.map(truncate_text, fn_kwargs=limit)
args = DPOConfig("out", max_length=4096)
DPOTrainer("Qwen/Qwen3-4B", args=args, train_dataset=dataset).train()
""",
        ),
        Example(
            title="a release that the runtime is not made for",
            bad="""\
from trl import DPOConfig, DPOTrainer

args = DPOConfig("out", max_length=2048, max_prompt_length=1536)
DPOTrainer("Qwen/Qwen3-4B", args=args, train_dataset=dataset).train()
""",
            target="trl=0.19",
        ),
    ),
)
