"""The runs that an out-of-memory log may come from, with what the log says of them."""

from __future__ import annotations

from typing import Any

from memlint.memory.checkpoints import find_architecture, find_config
from memlint.memory.oom_log import Log
from memlint.memory.settings import Settings, SettingsError, read_settings, replace

# Shapes taken where the log names no model: the families that are fine-tuned most.
USUAL = (
    "meta-llama/Llama-2-7b-hf",
    "meta-llama/Llama-2-13b-hf",
    "meta-llama/Llama-2-70b-hf",
    "meta-llama/Llama-3.1-8B",
    "meta-llama/Llama-3.2-1B",
    "meta-llama/Llama-3.2-3B",
    "mistralai/Mistral-7B-v0.1",
    "Qwen/Qwen2.5-0.5B",
    "Qwen/Qwen2.5-1.5B",
    "Qwen/Qwen2.5-3B",
    "Qwen/Qwen2.5-7B",
    "Qwen/Qwen2.5-14B",
    "Qwen/Qwen2.5-32B",
    "Qwen/Qwen3-8B",
    "google/gemma-2-9b",
    "openai-community/gpt2",
)


def runs_of(log: Log, given: Settings | None) -> list[tuple[Settings, float, bool]]:
    """Runs with their shares, and whether the batch is known. given: the run, where it is known."""
    if given is not None:
        return [(_with_log(given, log), 1.0, True)]
    values = _said(log)
    found = [_plain_run(name, values) for name in _models(log) or USUAL]
    runs = [run for run in found if run is not None]
    known = "seq_len" in values and "micro_batch" in values
    return [(run, 1.0 / len(runs), known) for run in runs]


def name_of(run: Settings) -> str:
    """The model that a run is named by."""
    return run.model if isinstance(run.model, str) else find_architecture(run.model).family


def _with_log(run: Settings, log: Log) -> Settings:
    """The run with what it leaves open as the log says it."""
    if run.world_size is None and log.world_size > 1:
        run = replace(run, world_size=log.world_size)
    if run.sharding is None and "sharding" in log.hints:
        run = replace(run, sharding=log.hints["sharding"])
    return run


def _said(log: Log) -> dict[str, Any]:
    """The settings that the log gives away."""
    keys = ("micro_batch", "seq_len", "sharding")
    values: dict[str, Any] = {key: log.hints[key] for key in keys if key in log.hints}
    if log.world_size > 1:
        values["world_size"] = log.world_size
    if log.hints.get("quantized"):
        values["quantization"] = {"bits": 4}
        values["method"] = "qlora"
    return values


def _plain_run(name: str, values: dict[str, Any]) -> Settings | None:
    """A run of the model as most are; None where its architecture is not known."""
    run = read_settings({"model": name, "trainer": "transformers.Trainer", **values})
    try:
        find_architecture(run.model)
    except SettingsError:
        return None
    if run.attention is None:
        run = replace(run, attention="eager", loss="full_logits", optimizer="adamw_torch")
    return run


def _models(log: Log) -> list[str]:
    """Names in the log that the table has; else the usual shapes of the traceback's family."""
    names: list[str] = []
    families: set[str] = set()
    for word in log.words:
        if word.startswith("modeling_"):
            families.add(word.removeprefix("modeling_"))
            continue
        # Only the last part: a path of another machine says nothing here.
        name = word.rstrip("/").rpartition("/")[2]
        try:
            find_config(name)
        except KeyError:
            continue
        names.append(name)
        break
    if names:
        return names
    return [name for name in USUAL if find_architecture(name).family in families]
