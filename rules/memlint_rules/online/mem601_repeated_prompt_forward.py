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

from memlint.rule import (
    LIBRARIES,
    OFF_CUDA,
    UNSLOTH,
    Finding,
    Fix,
    Level,
    LossForm,
    Rule,
    Script,
    Trainer,
    advise,
    prompt_sharing_trainer,
    share_prompts,
)

_PAYS = 1.3  # below this, packing the tree costs about what it saves


def check(script: Script) -> Iterator[Finding]:
    kinds = ("trl.GRPOTrainer", "trl.RLOOTrainer")
    for trainer in script.repeating_trainers(*kinds, with_images=True):
        group = trainer.number("num_generations")
        if group == 1:
            continue
        message, level = _message(script, trainer, group)
        yield Finding(script.span(trainer.node.func), message, _fix(script, trainer, group), level)
    yield from _own_loops(script)


def _message(script: Script, trainer: Trainer, group: int | None) -> tuple[str, Level | None]:
    """What it costs, as far as the configuration says it; a hint where that is little."""
    name = trainer.kind.rpartition(".")[2]
    if group is None:
        return (
            f"`{name}` forwards each prompt once for every completion of its group, though its "
            "hidden states are the same"
        ), None
    cost = f"`{name}` forwards each prompt {group} times, once for every completion:"
    prompt = script.prompt_limit(trainer)
    completion = trainer.number("max_completion_length")
    if prompt is None or completion is None:
        return (
            f"{cost} up to {group} times the tokens that sharing it takes, the longer the prompt "
            "the nearer"
        ), None
    rho = group * (prompt + completion) / (prompt + group * completion)
    return (
        f"{cost} {rho:.1f} times the tokens that sharing it takes, for prompts of {prompt:,} and "
        f"completions of {completion:,} tokens"
    ), Level.HINT if rho < _PAYS else None


def _own_loops(script: Script) -> Iterator[Finding]:
    """Hand-written losses over completions that ``generate`` drew from the same prompt."""
    group = script.completions_together
    if group is None or not script.trains or script.method_calls("shared_prompt_logprobs"):
        return
    many = f"{group.size} completions" if group.size else "the completions of a group"
    times = f", {group.size} times over" if group.size else " again and again"
    places = dict.fromkeys(
        loss.source
        for loss in script.token_losses
        if loss.shifted and loss.gradients and (loss.form is LossForm.GATHERED or loss.unreduced)
    )
    for place in [*places, *(call.node for call in script.scored_elsewhere)]:
        yield Finding(
            script.span(place),
            f"forwards {many} with the prompt that they share{times}",
            advise(
                "Take the log-probabilities from `memlint_runtime.shared_prompt_logprobs`, "
                "which forwards each prompt once"
            ),
        )


def _fix(script: Script, trainer: Trainer, group: int | None) -> Fix:
    """A prompt is shared as far as a micro-batch holds completions of it."""
    rows = trainer.number("per_device_train_batch_size")
    if group is None or rows is None or rows >= group:
        return share_prompts(script, trainer, "which forwards each prompt once")
    whole = f"`per_device_train_batch_size={group}`"
    if rows == 1:
        return advise(
            f"Train with `{prompt_sharing_trainer(trainer)}` and whole groups in a micro-batch "
            f"({whole}, with fewer accumulation steps): rows of one take a pass each"
        )
    times = -(-group // rows)
    return share_prompts(
        script,
        trainer,
        f"which forwards each prompt {times} times, once a micro-batch of {rows} ({whole}: once)",
    )


RULE = Rule(
    code="MEM601",
    name="repeated-prompt-forward",
    level=Level.WASTE,
    summary="a prompt forwarded once for every completion of its group",
    check=check,
    skips=(UNSLOTH, OFF_CUDA),
    triggers=(LIBRARIES, frozenset({"GRPOTrainer", "RLOOTrainer", "generate("})),
)
