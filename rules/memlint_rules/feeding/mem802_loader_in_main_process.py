"""Batches that are made by the process that trains."""

from collections.abc import Iterator

from memlint.rule import (
    Call,
    Config,
    Finding,
    Level,
    Rule,
    Script,
    Setting,
    Skip,
    edits,
    facts,
    fix,
)

_MESSAGE = "batches are made by the process that trains: the GPU waits for each"


def check(script: Script) -> Iterator[Finding]:
    if script.streams_data:
        # Every worker would read all of a streamed data set.
        return
    for dataset in script.datasets:
        loader = dataset.loader
        if loader is not None and dataset.purpose is facts.Purpose.TRAINING:
            workers = loader.setting("num_workers")
            if _none(workers):
                yield _finding(script, loader, workers, "num_workers")
    for config in script.configs:
        workers = config.setting("dataloader_num_workers")
        is_torch = config.has_option("dataloader_num_workers")
        if is_torch and _none(workers) and script.training_with(config):
            yield _finding(script, config, workers, "dataloader_num_workers")


def _none(workers: Setting) -> bool:
    """True if it is certain that there are none, and no command line decides."""
    return workers.given is False or (workers.value == 0 and not workers.is_overridable_default)


def _finding(script: Script, call: Call, workers: Setting, option: str) -> Finding:
    if workers.given or isinstance(call, Config):
        changes = edits.set_option(script, call, option, "2")
    else:
        changes = edits.add_option(call, option, "2")
    message = f"{_MESSAGE} (`{option}` is 0{'' if workers.given else ' by default'})"
    return Finding(
        script.span(call.node.func), message, fix(f"Set `{option}=2`", changes, unsafe=True)
    )


RULE = Rule(
    level=Level.HINT,
    summary="no workers that load data",
    check=check,
    skips=(Skip.OFF_CUDA, Skip.UNSLOTH, Skip.TESTS),
    triggers=(frozenset({"DataLoader", "Config", "TrainingArguments"}),),
    on_request=True,
)
