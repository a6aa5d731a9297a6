"""A causal LM loss over logits of size tokens times vocabulary."""

from collections.abc import Iterator

from memlint.rule import Finding, Rule, Script, Skip, TrainingRun, by_change, edits, facts, triggers

_COST = "some 14 bytes for every token and word of the vocabulary"


def check(script: Script) -> Iterator[Finding]:
    for forward in script.forwards:
        if _is_training_loss(forward) and script.owner_of_loss(forward.facts).full_logits:
            said = f"`{script.text(forward.node.func)}` computes the loss from the full logits"
            place = script.span(forward.node.func)
            yield Finding(place, f"{said}: {_COST}", by_change(edits.fused_loss(script, forward)))
    yield from _cross_entropies(script)


def _is_training_loss(forward: facts.Forward) -> bool:
    """True if a hand-written step trains a language model on the loss that it computes itself."""
    if forward.own or forward.facts.is_toy or not forward.facts.computes_causal_loss:
        return False
    return bool(forward.steps) and forward.computes_loss and forward.records_gradients


def _cross_entropies(script: Script) -> Iterator[Finding]:
    """Cross entropies over logits. ``MEM204`` reports float32 copies and log-probabilities."""
    if script.avoids_logits or not script.may_train:
        return
    losses = [one for one in script.token_losses if one.over_vocabulary and not one.is_idle]
    for loss in losses:
        plain = loss.form is facts.LossForm.CROSS_ENTROPY and not (loss.upcast or loss.unreduced)
        if plain and loss.gradients:
            yield Finding(
                loss.span,
                "a cross entropy over the logits of all positions: a number for every token and "
                "word of the vocabulary, and as many for its log-softmax and gradient",
                by_change(edits.deferred_logits(script, losses, loss.advice)),
            )


def of_run(run: TrainingRun) -> Iterator[Finding]:
    loss = run.loss
    if loss.is_value("full_logits"):
        yield Finding(loss.span, f"{loss.said}: {_COST}", by_change(run.set(loss="chunked")))


RULE = Rule(
    summary="causal LM loss over the full logits",
    check=check,
    of_run=of_run,
    skips=(Skip.UNSLOTH, Skip.OFF_CUDA, Skip.TESTS),
    triggers=(triggers.STEPS, triggers.TRAINING),
    effect={"loss": "no_logits"},
)
