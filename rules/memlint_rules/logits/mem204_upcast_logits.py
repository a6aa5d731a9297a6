"""A hand-written loss that copies the logits of every token and word to use one of each row."""

from collections.abc import Iterator

from memlint.rule import Finding, Rule, Script, Skip, by_change, edits, facts

_UPCAST = (
    "a cross entropy over a float32 copy of all logits: twice their size, and their gradient in "
    "float32 too"
)
_UNREDUCED = (
    "log-probabilities by a cross entropy over the logits of all positions: a log-softmax as large "
    "as the logits, and their gradient, for one number a token"
)
_GATHERED = (
    "a softmax over every token and word, of which one entry a token is gathered: as large as "
    "the logits, kept for backward, and its gradient as large again"
)
_LESS_LOGSUMEXP = (
    "log-probabilities as an entry of the logits less their `logsumexp`: the logits of all "
    "positions are kept for backward, and their gradient is as large again"
)
_DISTILLED = (
    "two models' distributions compared over every token and word: a log-softmax as large as the "
    "logits for each, kept for backward, and a gradient as large again"
)
_FROM_HIDDEN_STATES = (
    "Take the log-probabilities from the hidden states: "
    "`memlint_runtime.token_logprobs(hidden, model.lm_head.weight, tokens)`"
)
_DISTIL = (
    "Compare them from the hidden states, tile by tile: `memlint_runtime.distillation_loss(hidden, "
    "model.lm_head.weight, teacher_hidden, teacher.lm_head.weight)`"
)


def check(script: Script) -> Iterator[Finding]:
    if script.avoids_logits or not script.may_train:
        return
    losses = [one for one in script.token_losses if one.over_vocabulary and not one.is_idle]
    for loss in losses:
        message, advice = _said_of(loss)
        if loss.gradients and message and not loss.is_of_some:
            change = edits.deferred_logits(script, losses, advice)
            yield Finding(loss.span, message, by_change(change))


def _said_of(loss: facts.TokenLoss) -> tuple[str, str]:
    """What a loss costs and what else would help; empty for a plain cross entropy."""
    if loss.form is facts.LossForm.CROSS_ENTROPY and not loss.unreduced:
        return (_UPCAST if loss.upcast else ""), loss.advice
    if loss.form is facts.LossForm.DISTILLED:
        return _DISTILLED, _DISTIL
    by_form = {facts.LossForm.GATHERED: _GATHERED, facts.LossForm.LOGSUMEXP: _LESS_LOGSUMEXP}
    return by_form.get(loss.form, _UNREDUCED), _FROM_HIDDEN_STATES


RULE = Rule(
    summary="copies of all logits in a hand-written loss",
    check=check,
    skips=(Skip.UNSLOTH, Skip.OFF_CUDA, Skip.TESTS),
    triggers=(
        frozenset({"logits", "cross_entropy"}),
        frozenset({"softmax", "logsumexp", "cross_entropy", "CrossEntropyLoss", "Categorical"}),
    ),
    effect={"loss": "no_logits"},
)
