"""Runs a training script in a process of several and writes what it holds: ``worker SCRIPT``.

Two figures of the second step go into ``rank0.json`` and so on: bytes of all tensors between two
micro-batches, and before the optimizer's step. Accelerate switches FSDP on for GPUs alone; here it
is done for CPUs as well, by the lines that it has for GPUs.
"""

from __future__ import annotations

import gc
import json
import os
import runpy
import sys
from collections.abc import Callable
from typing import Any

import torch
from accelerate.optimizer import AcceleratedOptimizer  # type: ignore[import-untyped]
from accelerate.state import AcceleratorState  # type: ignore[import-untyped]
from accelerate.utils import DistributedType  # type: ignore[import-untyped]
from transformers.trainer_callback import CallbackHandler

MEASURED: dict[str, list[int]] = {"between": [], "step": []}


def held() -> int:
    """Bytes of all tensors of this process, each storage once."""
    gc.collect()
    storages: dict[int, int] = {}
    found = [each for each in gc.get_objects() if issubclass(type(each), torch.Tensor)]
    # Gradients that nobody has asked for are no objects of Python yet.
    found += [each.grad for each in found if each.is_leaf and each.grad is not None]
    for each in found:
        local: Any = each._local_tensor if hasattr(each, "_local_tensor") else each
        storage = local.untyped_storage()
        storages[storage.data_ptr()] = storage.nbytes()
    return sum(storages.values())


def measure_before(owner: type, name: str, what: str) -> None:
    """Measure at each call of a method, before it runs."""
    plain: Callable[..., Any] = getattr(owner, name)

    def measured(self: Any, *args: Any, **kwargs: Any) -> Any:
        MEASURED[what].append(held())
        return plain(self, *args, **kwargs)

    setattr(owner, name, measured)


def shard_on_cpus() -> None:
    """Let Accelerate take FSDP's plugin on CPUs."""
    plain: Callable[..., None] = AcceleratorState.__init__

    def begin(self: Any, *args: Any, fsdp_plugin: Any = None, **kwargs: Any) -> None:
        plain(self, *args, fsdp_plugin=fsdp_plugin, **kwargs)
        if fsdp_plugin is not None and self.distributed_type is DistributedType.MULTI_CPU:
            self.distributed_type = DistributedType.FSDP
            if self._mixed_precision != "no":
                fsdp_plugin.set_mixed_precision(self._mixed_precision)
            self.fsdp_plugin = fsdp_plugin

    AcceleratorState.__init__ = begin


def main(script: str) -> None:
    shard_on_cpus()
    measure_before(CallbackHandler, "on_substep_end", "between")
    if os.environ.get("ACCELERATE_USE_DEEPSPEED") == "true":
        from deepspeed import comm  # type: ignore[import-not-found]
        from deepspeed.runtime.engine import DeepSpeedEngine  # type: ignore[import-not-found]

        comm.init_distributed(dist_backend="gloo")  # as Accelerate does on GPUs
        # The Trainer's callback comes when the engine has stepped.
        measure_before(DeepSpeedEngine, "_take_model_step", "step")
    else:
        measure_before(AcceleratedOptimizer, "step", "step")
    runpy.run_path(script, run_name="__main__")
    with open(f"rank{os.environ['RANK']}.json", "w", encoding="utf-8") as file:
        json.dump({what: values[1] for what, values in MEASURED.items() if values}, file)
    if torch.distributed.is_initialized():
        torch.distributed.barrier()
    # Gloo aborts a process whose partner has gone while the interpreter is torn down.
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1])
