"""A prompt that goes through the model once for every completion of its group.

GRPO and RLOO score G completions of each prompt, and TRL forwards the prompt with every one of
them, although its hidden states are the same G times: G (P + C) tokens where P + G C would do.
Activations, time and gradients are those of the former. The gain, rho = G (P + C) / (P + G C),
tends to G where prompts are long and to 1 + P / C where groups are large. Source:
``_get_per_token_logps_and_entropies`` of ``trl/trainer/grpo_trainer.py``; huggingface/trl pull
request 2669.
"""

from __future__ import annotations

from collections.abc import Iterator

from memlint.rule import Applicability, Example, Finding, Fix, Level, Rule, Script, Trainer
from memlint_rules._libraries import LIBRARIES
from memlint_rules._logits import gathered_logprobs
from memlint_rules._shared_prompts import (
    number,
    prompt_limit,
    repeating_trainers,
    replacement,
    swap,
)

_PAYS = 1.3  # below this, packing the tree costs about what it saves


def check(script: Script) -> Iterator[Finding]:
    for trainer in repeating_trainers(script, "trl.GRPOTrainer", "trl.RLOOTrainer"):
        group = number(script, trainer, "num_generations")
        prompt = prompt_limit(script, trainer)
        completion = number(script, trainer, "max_completion_length")
        level = None
        name = trainer.kind.rpartition(".")[2]
        if group is None:
            message = (
                f"`{name}` forwards each prompt once for every completion of its group, though its "
                "hidden states are the same"
            )
        elif prompt is None or completion is None:
            message = (
                f"`{name}` forwards each prompt {group} times, once for every completion: up to "
                f"{group} times the tokens that sharing it takes, the longer the prompt the nearer"
            )
        else:
            rho = group * (prompt + completion) / (prompt + group * completion)
            message = (
                f"`{name}` forwards each prompt {group} times, once for every completion: "
                f"{rho:.1f} times the tokens that sharing it takes, for prompts of {prompt:,} and "
                f"completions of {completion:,} tokens"
            )
            level = Level.HINT if rho < _PAYS else None
        fix = _fix(script, trainer, group)
        yield Finding(script.span(trainer.node.func), message, fix, level)
    yield from _own_loops(script)


def _own_loops(script: Script) -> Iterator[Finding]:
    """Hand-written losses over completions that ``generate`` drew from the same prompt."""
    group = _drawn_together(script)
    if group is None or script.uses_unsloth or script.off_cuda or not script.loops:
        return
    if script.method_calls("shared_prompt_logprobs"):
        return
    seen = set()
    for one in gathered_logprobs(script):
        if one.chain.source in seen or not one.chain.shifted:
            continue
        seen.add(one.chain.source)
        if not script.without_gradients(one.node):
            yield Finding(
                script.span(one.chain.source),
                f"forwards {group} completions with the prompt that they share, {group} times over",
                Fix(
                    "Take the log-probabilities from `memlint_runtime.shared_prompt_logprobs`, "
                    "which forwards each prompt once",
                    applicability=Applicability.DISPLAY,
                ),
            )


def _drawn_together(script: Script) -> int | None:
    """How many completions ``generate`` draws for one prompt; None where that is one or unknown."""
    found = {
        value
        for call in script.method_calls("generate", "GenerationConfig")
        for value in (call.setting("num_return_sequences").value,)
        if type(value) is int and value > 1
    }
    return found.pop() if len(found) == 1 else None


def _fix(script: Script, trainer: Trainer, group: int | None) -> Fix:
    """A prompt is shared as far as a micro-batch holds completions of it."""
    rows = number(script, trainer, "per_device_train_batch_size")
    if group is None or rows is None or rows >= group:
        return swap(script, trainer, "which forwards each prompt once")
    whole = f"`per_device_train_batch_size={group}`"
    if rows == 1:
        return Fix(
            f"Train with `{replacement(trainer)}` and whole groups in a micro-batch ({whole}, with "
            "fewer accumulation steps): one row at a time shares nothing",
            applicability=Applicability.DISPLAY,
        )
    times = -(-group // rows)
    return swap(
        script,
        trainer,
        f"which forwards each prompt {times} times, once a micro-batch of {rows} ({whole}: once)",
    )


RULE = Rule(
    code="MEM601",
    name="repeated-prompt-forward",
    level=Level.WASTE,
    summary="a prompt forwarded once for every completion of its group",
    why=(
        "GRPO and RLOO compare G completions of the same prompt, and forward the prompt with each "
        "of them: G (P + C) tokens through the model, where P + G C carry the same information. "
        "With prompts of 4,096 tokens, completions of 256 and groups of 8 that is 5.7 times the "
        "tokens, and as many times the activations, for policy, old and reference model alike. "
        "The runtime's trainers are TRL's own with the same arguments, losses and metrics; they "
        "pack each group as a prefix tree and let the gradient flow through the shared prompt. "
        "A hint where the limits of the configuration say that little would be gained."
    ),
    fix_safety=(
        "Safe: log-probabilities and gradients are those of the repeated prompt, up to rounding; "
        "one import changes. Unsafe where an adapter's dropout has to become 0 for it: completions "
        "that share a prompt share the draw, so the runtime refuses dropout. Advice only for "
        "releases of TRL that the runtime's trainers are not made for, for the script's own "
        "subclasses, compiled models, layers that are not attention, and micro-batches of one row, "
        "which have nothing to share; and for loops written by hand. The trainers come with "
        "`pip install 'torch-memlint[runtime]'`."
    ),
    check=check,
    triggers=(LIBRARIES, frozenset({"GRPOTrainer", "RLOOTrainer", "num_return_sequences"})),
    references=(
        "https://github.com/huggingface/trl/pull/2669",
        "https://arxiv.org/abs/2402.03300",
    ),
    examples=(
        Example(
            title="a prompt for every completion",
            bad="""\
from trl import GRPOConfig, GRPOTrainer

args = GRPOConfig("out", num_generations=8, max_completion_length=256)
trainer = GRPOTrainer(
    model="Qwen/Qwen3-4B",
    reward_funcs=reward,
    args=args,
    train_dataset=dataset,
)
trainer.train()
""",
            good="""\
from trl import GRPOConfig
from memlint_runtime.trl import GRPOTrainer

args = GRPOConfig("out", num_generations=8, max_completion_length=256)
trainer = GRPOTrainer(
    model="Qwen/Qwen3-4B",
    reward_funcs=reward,
    args=args,
    train_dataset=dataset,
)
trainer.train()
""",
        ),
        Example(
            title="through the module, for RLOO",
            bad="""\
import trl

trainer = trl.RLOOTrainer("Qwen/Qwen3-4B", reward_funcs=reward, train_dataset=dataset)
trainer.train()
""",
            good="""\
import trl
from memlint_runtime.trl import RLOOTrainer

trainer = RLOOTrainer("Qwen/Qwen3-4B", reward_funcs=reward, train_dataset=dataset)
trainer.train()
""",
        ),
    ),
)
