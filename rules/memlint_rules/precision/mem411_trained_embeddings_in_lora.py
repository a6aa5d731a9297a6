"""Embeddings or the head trained whole beside a LoRA."""

from collections.abc import Iterator

from memlint.rule import Finding, Level, Rule, Skip, TrainingRun, by_change, triggers

_TABLES = frozenset({"embed_tokens", "lm_head", "wte", "embed_in", "embed_out", "word_embeddings"})
_TABLES |= {"tok_embeddings", "shared", "embeddings"}


def check(run: TrainingRun) -> Iterator[Finding]:
    head, saved = run.adapted_head, run.modules_to_save
    if head.is_value(True):
        yield Finding(head.span, head.said, by_change(run.set(adapted_head=False)))
    names = saved.value if isinstance(saved.value, tuple) else ()
    tables = [f"`{name}`" for name in names if name.rpartition(".")[2] in _TABLES]
    if tables:
        yield Finding(
            saved.span,
            f"{' and '.join(tables)} trained whole beside the adapter: a copy of the weights, "
            "gradients and optimizer states for every word of the vocabulary",
            by_change(run.set(modules_to_save=())),
        )


RULE = Rule(
    level=Level.HINT,
    summary="embeddings or head trained whole beside a LoRA",
    of_run=check,
    skips=(Skip.UNSLOTH, Skip.TESTS),
    triggers=(triggers.LIBRARIES, frozenset({"modules_to_save"})),
)
