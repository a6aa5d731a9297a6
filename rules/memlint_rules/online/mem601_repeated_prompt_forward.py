"""A prompt that goes through the model once for every completion of its group."""

from collections.abc import Iterator
from math import lcm

from memlint.rule import Finding, Fix, Level, Rule, Script, Skip, Trainer, advise, facts, triggers
from memlint_rules.online.shared_prompts import prompt_sharing_trainer, share_prompts

# Ways to score tokens, beside a cross entropy without reduction.
_SCORES = (facts.LossForm.GATHERED, facts.LossForm.LOGSUMEXP)
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
    group = facts.completions_together(script)
    if group is None or not script.may_train:
        return
    if script.method_calls_anywhere("shared_prompt_logprobs", "logsigmoid"):
        return  # the latter compares pairs
    many = f"{group.size} completions" if group.size else "the completions of a group"
    times = f", {group.size} times over" if group.size else " again and again"
    places = dict.fromkeys(
        loss.source
        for loss in script.token_losses
        if (loss.shifted or loss.over_vocabulary)
        and loss.gradients
        and (loss.form in _SCORES or loss.unreduced)
    )
    for place in [*places, *(call.node for call in facts.scored_elsewhere(script))]:
        yield Finding(
            script.span(place),
            f"forwards {many} with the prompt that they share{times}",
            advise(
                "Take the log-probabilities from `memlint_runtime.shared_prompt_logprobs`, "
                "which forwards each prompt once"
            ),
        )


def _fix(script: Script, trainer: Trainer, group: int | None) -> Fix:
    """A prompt is shared within a micro-batch, and over those of a step that cut its group."""
    rows = trainer.number("per_device_train_batch_size")
    times = 1 if group is None or rows is None or rows >= group else _forwards(trainer, rows, group)
    if group is None or times == 1:
        return share_prompts(script, trainer, "which forwards each prompt once")
    whole = f"`per_device_train_batch_size={group}`"
    if times >= group:
        return advise(
            f"Train with `{prompt_sharing_trainer(trainer)}` and whole groups in a micro-batch "
            f"({whole}): every completion of a group has a step of its own"
        )
    return share_prompts(
        script, trainer, f"which forwards each prompt {times} times ({whole}: once)"
    )


def _forwards(trainer: Trainer, rows: int, group: int) -> int:
    """How often the runtime forwards a prompt at most, where micro-batches cut its group: once in
    every optimizer step that sees rows of it; once a micro-batch where parameters are sharded."""
    together = lcm(rows, group) // rows  # micro-batches that hold whole groups
    cut = group // rows if group % rows == 0 else (group + rows - 2) // rows + 1
    steps = trainer.number("gradient_accumulation_steps")
    config = trainer.config
    sharded = [config.setting(name).given for name in ("fsdp", "deepspeed")] if config else []
    if steps is None or any(given is not False for given in sharded):
        return cut
    if steps % together == 0:
        return 1
    return min(cut, together // steps if together % steps == 0 else (together - 2) // steps + 2)


RULE = Rule(
    summary="a prompt forwarded once for every completion of its group",
    check=check,
    skips=(Skip.UNSLOTH, Skip.OFF_CUDA),
    triggers=(
        triggers.STEPS,
        frozenset({"GRPOTrainer", "RLOOTrainer", "generate", ".backward("}),
    ),
    effect={"shared_prompt": True},
)
