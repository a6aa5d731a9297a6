"""Training that keeps every layer's activations until the backward pass."""

from collections.abc import Iterator

from memlint.rule import Finding, Rule, Script, Skip, TrainingRun, by_change, edits, facts, triggers

_STACKS = ("ModuleList", "Sequential", "TransformerEncoder", "TransformerDecoder")
# What a script that decides about its own layers speaks of.
_DECIDED = ("checkpoint_wrapper", "activation_memory_budget")


def own_models(script: Script) -> Iterator[Finding]:
    """Models of the script's own: a stack of layers whose passes are all kept."""
    stacks = script.method_calls_anywhere(*_STACKS)
    if not stacks or not script.on_gpu or script.may_checkpoint or script.may_use(*_DECIDED):
        return
    for model in facts.own_models_of(script):
        if script.call_at(model.load.node):
            yield Finding(
                model.load.span,
                "a loop trains this model without activation checkpointing: the activations of all "
                "layers are kept until backward",
                by_change(edits.recomputed_layers(script, model)),
            )


def check(run: TrainingRun) -> Iterator[Finding]:
    checkpointing = run.checkpointing
    if not checkpointing.is_value("none") or checkpointing.pending:
        return
    yield Finding(
        checkpointing.span,
        f"{checkpointing.said}: the activations of all layers are kept until backward",
        by_change(run.set(checkpointing="full")),
    )


RULE = Rule(
    summary="no activation checkpointing",
    check=own_models,
    of_run=check,
    skips=(Skip.UNSLOTH, Skip.OFF_CUDA),
    triggers=(triggers.STEPS, triggers.TRAINING),
)
