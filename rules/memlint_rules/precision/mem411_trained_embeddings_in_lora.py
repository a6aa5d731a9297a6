"""Embeddings or the head trained whole beside a LoRA.

``modules_to_save`` makes a full copy of a module, which is trained: for the embeddings of 128,256
words at 4,096 numbers that is 1 GiB of weights in bf16, and gradients and Adam's states on top,
more than the rest of the adapter together. Source: PEFT documentation, "LoRA" (modules_to_save, and
trainable_token_indices).
"""

from __future__ import annotations

from collections.abc import Iterator

from memlint.rule import (
    Finding,
    Level,
    Rule,
    Script,
    Skip,
    TrainingRun,
    advise,
    by_change,
    triggers,
)

_TABLES = frozenset({"embed_tokens", "lm_head", "wte", "embed_in", "embed_out", "word_embeddings"})
_TABLES |= {"tok_embeddings", "shared", "embeddings"}
_GROWS = (
    *("resize_token_embeddings", "add_tokens", "add_special_tokens"),
    *("clone_chat_template", "setup_chat_format"),
)


def check(script: Script) -> Iterator[Finding]:
    if not script.may_train:
        return
    for call in script.calls_to("peft.LoraConfig"):
        saved = call.setting("modules_to_save")
        if not isinstance(saved.value, list | tuple):
            continue
        tables = [
            name for name in saved.value
            if isinstance(name, str) and name.rpartition(".")[2] in _TABLES
        ]  # fmt: skip
        if not tables:
            continue
        grows = bool(script.method_calls(*_GROWS))
        names = " and ".join(f"`{name}`" for name in tables)
        yield Finding(
            script.span(saved.node if saved.node is not None else call.node.func),
            f"{names} trained whole beside the adapter: a copy of the weights, gradients and "
            "optimizer states for every word of the vocabulary",
            advise(_advice(call.has_option("trainable_token_indices"), grows)),
        )


def _advice(has_indices: bool, grows: bool) -> str:
    if not grows:
        return "Leave them out of `modules_to_save`, unless the vocabulary has grown"
    if has_indices:
        return "Train the new words alone: `trainable_token_indices=[...]` in their place"
    return "Leave them out of `modules_to_save` where the new words can start from known ones"


def of_run(run: TrainingRun) -> Iterator[Finding]:
    head, saved = run.adapted_head, run.modules_to_save
    if head.is_value(True):
        yield Finding(head.span, head.said, by_change(run.set(adapted_head=False)))
    if isinstance(saved.value, tuple) and not _TABLES.isdisjoint(saved.value):
        yield Finding(
            saved.span,
            "embeddings and output layer are trained as full copies, with gradients and optimizer "
            "states as wide as the vocabulary",
            advise("Leave them out unless new tokens must be learned"),
        )


RULE = Rule(
    code="MEM411",
    name="trained-embeddings-in-lora",
    level=Level.HINT,
    summary="embeddings or head trained whole beside a LoRA",
    check=check,
    of_run=of_run,
    on_request=True,
    skips=(Skip.UNSLOTH, Skip.TESTS),
    triggers=(triggers.LIBRARIES, frozenset({"modules_to_save"})),
)
