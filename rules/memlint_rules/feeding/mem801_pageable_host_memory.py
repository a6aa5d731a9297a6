"""Batches that wait in pageable memory of the host.

The driver copies pageable memory twice, through a pinned buffer, and the copy cannot run beside the
computation. It costs time for each batch, no GPU memory. Source: PyTorch documentation, "Memory
Pinning"; transformers documentation, "GPU" (data preloading).
"""

from __future__ import annotations

from collections.abc import Iterator

from memlint.rule import Call, Config, Finding, Fix, Level, Rule, Script, Skip, edits, facts, fix

_MESSAGE = "batches are copied to the GPU from pageable memory, twice and not beside computation"


def check(script: Script) -> Iterator[Finding]:
    for dataset in script.datasets:
        loader = dataset.loader
        if loader is None or dataset.purpose is not facts.Purpose.TRAINING:
            continue
        pinned = loader.setting("pin_memory")
        if pinned.given is False or (pinned.value is False and not pinned.is_overridable_default):
            yield Finding(
                script.span(loader.node.func), _MESSAGE, _fix_loader(script, dataset, loader)
            )
    for config in script.configs:
        if _unpinned(config) and script.training_with(config):
            changes = edits.set_option(script, config, "dataloader_pin_memory", "True")
            node = config.setting("dataloader_pin_memory").node
            yield Finding(
                script.span(node if node is not None else config.node.func),
                f"`dataloader_pin_memory=False`: {_MESSAGE}",
                fix("Set `dataloader_pin_memory=True`", changes, unsafe=True),
            )


def _unpinned(config: Config) -> bool:
    pinned = config.setting("dataloader_pin_memory")
    return pinned.given is True and pinned.value is False and not pinned.is_overridable_default


def _fix_loader(script: Script, dataset: facts.Dataset, loader: Call) -> Fix:
    """Tensors that are on the GPU already cannot be pinned: safe where a library collates."""
    collator = loader.setting("collate_fn")
    name = collator.symbol or getattr(collator.value, "type", None) or ""
    given = loader.setting("pin_memory").given
    changes = (
        edits.set_option(script, loader, "pin_memory", "True")
        if given
        else edits.add_option(loader, "pin_memory", "True")
    )
    return fix("Pass `pin_memory=True`", changes, unsafe=not str(name).startswith("transformers."))


RULE = Rule(
    code="MEM801",
    name="pageable-host-memory",
    level=Level.HINT,
    summary="a DataLoader without pinned memory",
    check=check,
    skips=(Skip.OFF_CUDA, Skip.UNSLOTH, Skip.TESTS),
    triggers=(frozenset({"DataLoader", "dataloader_pin_memory"}),),
    on_request=True,
)
