"""A hand-written loss that copies the logits of every token and word to use one of each row.

``log_softmax(logits)`` followed by ``gather`` makes a second tensor as large as the logits, keeps
it for the backward pass, and makes a third for the gradient; ``logits.float()`` doubles each. One
number a token is wanted. Computed tile by tile from the hidden states, nothing of that size exists.
Source: Wijmans et al., "Cut Your Losses in Large-Vocabulary Language Models", arXiv:2411.09009.
"""

from __future__ import annotations

from collections.abc import Iterator

from memlint.rule import (
    IF_TAKEN,
    Finding,
    Fix,
    Level,
    Rule,
    Script,
    Skip,
    advise,
    edits,
    facts,
    fix,
)

# What copies a model, compiles it, or takes its head's weights away, defers no logits.
_UNDEFERRABLE = ("deepcopy", "create_reference_model", "compile", "DataParallel")

_UPCAST = (
    "a cross entropy over a float32 copy of all logits: twice their size, and their gradient in "
    "float32 too"
)
_UNREDUCED = (
    "log-probabilities by a cross entropy over the logits of all positions: a log-softmax as large "
    "as the logits, and their gradient, for one number a token"
)
_LESS_LOGSUMEXP = (
    "log-probabilities as an entry of the logits less their `logsumexp`: the logits of all "
    "positions are kept for backward, and their gradient is as large again"
)
_DISTILLED = (
    "two models' distributions compared over every token and word: a log-softmax as large as the "
    "logits for each, kept for backward, and a gradient as large again"
)
_DISTIL = (
    "Compare them from the hidden states, tile by tile: `memlint_runtime.distillation_loss(hidden, "
    "model.lm_head.weight, teacher_hidden, teacher.lm_head.weight)`"
)


def check(script: Script) -> Iterator[Finding]:
    if script.avoids_logits or not script.may_train:
        return
    losses = [one for one in script.token_losses if one.over_vocabulary and not one.is_idle]
    gathered = [one for one in losses if one.form is facts.LossForm.GATHERED]
    changes = _defer(script, gathered) if gathered else None
    doubted = _run_own_code(gathered)
    for loss in losses:
        if not loss.gradients:
            continue
        if loss.form is facts.LossForm.GATHERED:
            yield _gathered(loss, changes, doubted)
            changes = None if changes is None else ()
        else:
            yield from _of_form(loss)


def _of_form(loss: facts.TokenLoss) -> Iterator[Finding]:
    """Findings that have no fix."""
    message, advice = _UPCAST, advise(loss.advice)
    if loss.form is facts.LossForm.LOGSUMEXP:
        message, advice = _LESS_LOGSUMEXP, _fix(None, False)
    elif loss.form is facts.LossForm.DISTILLED:
        message, advice = _DISTILLED, advise(_DISTIL)
    elif loss.unreduced:
        message, advice = _UNREDUCED, _fix(None, False)
    elif not loss.upcast:
        return
    yield Finding(loss.span, message, advice)


def _run_own_code(losses: list[facts.TokenLoss]) -> bool:
    return any(load.loads_own_code for loss in losses for load in loss.loads or ())


def _gathered(
    loss: facts.TokenLoss, changes: tuple[edits.Edit, ...] | None, doubted: bool
) -> Finding:
    return Finding(
        loss.span,
        "a log-softmax over every token and word, of which one entry a token is gathered: as "
        "large as the logits, kept for backward, and its gradient as large again",
        _fix(changes, doubted),
    )


def _fix(changes: tuple[edits.Edit, ...] | None, doubted: bool) -> Fix:
    if changes is None:
        return advise(
            "Take the log-probabilities from the hidden states: "
            "`memlint_runtime.token_logprobs(hidden, model.lm_head.weight, tokens)`"
        )
    return fix(
        "Call `defer_logits(model)` once the model is loaded: the gathered entries are then "
        "computed tile by tile from the hidden states" + (f", {IF_TAKEN}" if doubted else ""),
        changes,
        unsafe=doubted,
    )


def _defer(script: Script, gathered: list[facts.TokenLoss]) -> tuple[edits.Edit, ...] | None:
    """Edits after which the logits are computed as far as they are gathered. None where any of
    them is used otherwise, or where not all models that make them are known."""
    if script.method_calls_anywhere(*_UNDEFERRABLE) or script.imports_package("deepspeed"):
        return None
    loads = [one.loads for one in gathered]
    if None in loads or not facts.are_only_gathered(script, gathered):
        return None
    known = dict.fromkeys(load for each in loads for load in each or ())
    if not all(load.method == "from_pretrained" for load in known):
        return None
    name = "memlint_runtime.losses.defer_logits"
    return edits.together(*(edits.call_after_load(script, name, load) for load in known))


RULE = Rule(
    code="MEM204",
    name="upcast-logits",
    level=Level.WASTE,
    summary="copies of all logits in a hand-written loss",
    check=check,
    skips=(Skip.UNSLOTH, Skip.OFF_CUDA, Skip.TESTS),
    triggers=(
        frozenset({"logits"}),
        frozenset({"log_softmax", "logsumexp", "cross_entropy", "CrossEntropyLoss", "Categorical"}),
        frozenset({".backward", "Trainer", "optim", "gather", "kl_div", "KLDivLoss"}),
    ),
    effect={"loss": "no_logits"},
)
