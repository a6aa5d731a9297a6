"""The files that start a run as a candidate has it: Accelerate's YAML, DeepSpeed's JSON, a command.

Sources: ``ClusterConfig`` in ``accelerate/commands/config/config_args.py``; the checks of
``DeepSpeedPlugin`` (beside a file of DeepSpeed's own, Accelerate's may name neither dtype nor
stage); TRL's ``accelerate_configs``.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
from collections.abc import Mapping
from typing import Any

import yaml

from memlint.memory.settings import dtype_width
from memlint.parallel.sharding_search import Candidate, Shared
from memlint.parallel.strategies import FORMS, Strategy, zero_section
from memlint.parallel.traffic import GPUS_OF_A_NODE
from memlint.recipes.document import DocumentError
from memlint.recipes.files import is_document
from memlint.recipes.kinds import Kind
from memlint.recipes.recipe import read_recipe
from memlint.source.patterns import lazy_pattern
from memlint.source.text import Source

CONFIGURATION, DEEPSPEED, COMMAND = "accelerate.yaml", "deepspeed.json", "launch.sh"
_SHORT = {"bfloat16": "bf16", "float16": "fp16"}
_HEAD = """#!/bin/sh
# Start this in the folder in which memlint was run; what follows its name goes to the script.
"""
_MACHINES = '--machine_rank "$RANK" --main_process_ip "$HEAD" --main_process_port 29500'
_MUCH = 64 * 2**30  # bytes of weights in host memory, from which on one process loads for all
_STARTED = lazy_pattern(r"(?m)^[ \t]*(?:from|import)[ \t]+accelerate\b")
_TRL = ("sft", "dpo", "kto", "grpo", "rloo", "reward")  # its commands, by trainers' names


class CannotWriteError(ValueError):
    """No files can be written for this run, or here: the message says why."""


def launch_files(shared: Shared, folder: str, source: Source | None) -> dict[str, str]:
    """Return the files that start a run as its chosen candidate has it, by name, the command last.

    folder: where they will be, as the command names it. source: the script or the recipe that is
    started; None: the command's first argument.

    Raises:
        CannotWriteError: Accelerate cannot start the run so.
    """
    chosen = shared.chosen
    assert chosen is not None
    started = _started(shared, source)
    files = {CONFIGURATION: yaml.safe_dump(_configuration(shared, chosen, folder), sort_keys=False)}
    if chosen.strategy.engine == "DEEPSPEED":
        files[DEEPSPEED] = json.dumps(_engine(shared, chosen.strategy), indent=2) + "\n"
    files[COMMAND] = _command(shared, _joined(folder, CONFIGURATION), started)
    return files


def _started(shared: Shared, source: Source | None) -> tuple[str, ...]:
    """Return the program that starts a run with its own words, up to the file that it is given."""
    if source is None:
        return ("accelerate", "launch")
    path, trainer = source.path, shared.known.trainer or "loop"
    if is_document(path):
        try:
            recipe = read_recipe(source)
        except DocumentError:
            recipe = None
        method = trainer.removeprefix("trl.").removesuffix("Trainer").lower()
        if recipe is None or recipe.kind is not Kind.TRL or method not in _TRL:
            raise CannotWriteError(f"{path}: its program reads from it how GPUs share the run")
        return ("trl", method, "--config", path)
    if not path.endswith(".py"):
        raise CannotWriteError(f"{path} is no script: give the script that it starts")
    if trainer == "loop" and _STARTED.search(source.text) is None:
        raise CannotWriteError(
            f"{path} trains in a loop without Accelerate: no launch file divides what it does"
        )
    return ("accelerate", "launch", path)


def write_files(folder: str, files: Mapping[str, str]) -> tuple[str, ...]:
    """Write all files, or none, and return their paths.

    Raises:
        CannotWriteError: one is there already, or the folder takes none.
    """
    paths = {os.path.join(folder, name): text for name, text in files.items()}
    there = [path for path in paths if os.path.lexists(path)]
    if there:
        raise CannotWriteError(f"{there[0]} is there already: nothing is written")
    fresh = not os.path.isdir(folder)
    try:
        with contextlib.ExitStack() as undo:  # an interrupt, too, leaves nothing behind
            os.makedirs(folder, exist_ok=True)
            if fresh:
                undo.callback(os.rmdir, folder)
            for path, text in paths.items():
                with open(path, "x", encoding="utf-8", newline="\n") as file:
                    undo.callback(os.unlink, path)
                    file.write(text)
            undo.pop_all()
    except OSError as error:
        reason = error.strerror or str(error)
        raise CannotWriteError(f"{folder} takes no files: {reason}") from None
    return tuple(paths)


def _configuration(shared: Shared, chosen: Candidate, folder: str) -> dict[str, Any]:
    """Accelerate's configuration."""
    strategy, gpus = chosen.strategy, shared.gpus
    machines = max(gpus // GPUS_OF_A_NODE, 1) if gpus % GPUS_OF_A_NODE == 0 else 1
    counts = {"num_machines": machines, "num_processes": gpus}
    values: dict[str, Any] = FORMS["accelerate"] | {"distributed_type": strategy.engine} | counts
    if strategy.engine == "DEEPSPEED":
        values["deepspeed_config"] = {
            "deepspeed_config_file": _joined(folder, DEEPSPEED),
            "zero3_init_flag": strategy.sharding == "zero3",
        }
        return values
    dtype = (shared.known.compute_dtype or "") if shared.known.autocast else ""
    values["mixed_precision"] = _SHORT.get(dtype, "no")
    if strategy.engine == "FSDP":
        values["fsdp_config"] = _fsdp(shared, strategy)
    if strategy.contexts > 1:
        sizes = gpus // strategy.contexts, strategy.contexts
        names = (f"parallelism_config_{name}_size" for name in ("dp_shard", "cp"))
        values["parallelism_config"] = FORMS["contexts"] | dict(zip(names, sizes, strict=True))
    return values


def _fsdp(shared: Shared, strategy: Strategy) -> dict[str, Any]:
    """Accelerate's section on FSDP, of the version that the release has."""
    width = dtype_width(shared.known.weights_dtype or "bfloat16")
    much = shared.parameters * width * shared.gpus > _MUCH
    decided = {"fsdp_offload_params": bool(strategy.host), "fsdp_cpu_ram_efficient_loading": much}
    return {**FORMS[strategy.sharding], **FORMS["of both"], **decided}


def _engine(shared: Shared, strategy: Strategy) -> dict[str, Any]:
    """DeepSpeed's configuration: what a trainer's arguments decide is left to them (``auto``)."""
    return {**FORMS["deepspeed"], "zero_optimization": zero_section(strategy, shared.hidden)}


def _command(shared: Shared, configuration: str, started: tuple[str, ...]) -> str:
    """A shell script that starts the run."""
    if started[0] == "trl":
        words = [*started, "--accelerate_config", configuration]
    else:
        words = [*started[:2], "--config_file", configuration, *started[2:]]
    line = shlex.join(words)
    if shared.gpus > GPUS_OF_A_NODE and started[0] != "trl":
        line = line.replace(" --config_file", f" {_MACHINES} --config_file", 1)
    return f'{_HEAD}exec {line} "$@"\n'


def _joined(folder: str, name: str) -> str:
    return os.path.join(folder, name).replace(os.sep, "/")
