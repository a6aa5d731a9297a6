"""One of two processes: shared prompts under DDP, FSDP2 and TRL's trainers, for `test_wrapped`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from memlint_runtime.shared_prompt import Sharing, kept, shared_prompt_logprobs
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

from tests.runtime.float64 import errors, in_float64
from tests.runtime.ranks import set_environment
from tests.runtime.shared_prompt.models import batch, repeated, tiny
from tests.runtime.shared_prompt.training import DropsLosses


def loss_of(logprobs: Tensor, seed: int) -> Tensor:
    draw = torch.Generator().manual_seed(seed)
    return (logprobs * torch.randn(logprobs.shape, generator=draw)).sum()


def expected(model: nn.Module) -> dict[str, Tensor]:
    """The mean over both ranks of the repeated prompts' gradients, on one plain model."""
    for rank in range(2):
        (loss_of(repeated(model, *batch([4, 2], seed=rank))[0], rank) / 2).backward()
    return {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}


def grads_of(model: nn.Module) -> dict[str, Tensor]:
    return {
        n.removeprefix("module."): p.grad.full_tensor() if isinstance(p.grad, DTensor) else p.grad
        for n, p in model.named_parameters()
        if p.grad is not None
    }


def check(model: nn.Module, sharing: Sharing) -> float:
    """The largest error of a gradient, as a share of what rounding explains."""
    logprobs = shared_prompt_logprobs(model, *batch([4, 2], seed=dist.get_rank()), sharing=sharing)
    loss_of(logprobs, dist.get_rank()).backward()
    truth = in_float64(expected, tiny("qwen2"))
    found = errors(grads_of(model), expected(tiny("qwen2")), truth)
    return max(far / allowed for _, far, allowed in found.values())


def wrapped_models() -> dict[str, float]:
    whole, phases = Sharing(min_saved_tokens=1), Sharing(token_budget=16, min_saved_tokens=1)
    errors = {}
    for checkpointing in (False, True):
        for kind, sharing in (("whole", whole), ("two phases", phases)):
            ddp = DistributedDataParallel(tiny("qwen2", checkpointing=checkpointing))
            errors[f"ddp, {kind}, checkpointing {checkpointing}"] = check(ddp, sharing)
            fsdp = tiny("qwen2", checkpointing=checkpointing)
            parts = [*fsdp.model.layers]
            # The head in the root's group, and in one of its own.
            parts += [fsdp.lm_head] if checkpointing else []
            for part in parts:
                fully_shard(part)
            fully_shard(fsdp)
            errors[f"fsdp2, {kind}, checkpointing {checkpointing}"] = check(fsdp, sharing)
    return errors


def trainers(folder: Path) -> dict[str, list[list[dict[str, float]]]]:
    """For each wrapper, the steps of TRL's trainer and of ours."""
    from memlint_runtime.trl import GRPOTrainer as SharedGRPOTrainer
    from trl import GRPOTrainer

    return {
        wrapper: [steps(each, folder, wrapper) for each in (GRPOTrainer, SharedGRPOTrainer)]
        for wrapper in ("fsdp2", "ddp", "ddp, rows of one", "ddp, rows of one scored together")
    } | {"ddp, rows of one, losses dropped": losses_dropped(SharedGRPOTrainer, folder)}


def losses_dropped(trainer: type[Any], folder: Path) -> list[list[dict[str, float]]]:
    """Beside itself without kept prompts: TRL's would drop the losses of other rows."""
    wrapper = "ddp, rows of one, losses dropped"
    return [
        steps(type("Own", (DropsLosses, trainer), {"sharing": sharing}), folder, wrapper)
        for sharing in (Sharing(keep_prompts=False), Sharing())
    ]


def steps(trainer: type[Any], folder: Path, wrapper: str) -> list[dict[str, float]]:
    """Steps of a trainer. accelerate shards on accelerators only, so FSDP2 is put on the model
    here, in the place of accelerate's DDP; all completions are of one length then, since a sharded
    model generates in step."""
    from trl import GRPOConfig

    from tests.runtime.shared_prompt.test_trainers import settings, steps_of
    from tests.runtime.shared_prompt.training import prompts, reward, tokenizer

    options: dict[str, Any] = {"per_device_train_batch_size": 4}
    if wrapper == "fsdp2":
        options["generation_kwargs"] = {"min_new_tokens": 10}
    if "rows of one" in wrapper:
        # Groups are cut by the micro-batches of a step, and every prompt is kept over them: from
        # here on, so that these wrappers come last.
        kept.MIN_KEPT_TOKENS = 1
        kept.MOST_TOGETHER = 100.0 if "together" in wrapper else 0.0
        options |= {"per_device_train_batch_size": 1, "gradient_accumulation_steps": 4}
    made = trainer(
        model=str(folder / "model"), reward_funcs=reward, processing_class=tokenizer(),
        args=settings(GRPOConfig, folder / "out", num_iterations=2, **options),
        train_dataset=prompts(),
    )  # fmt: skip
    if wrapper == "fsdp2":
        for layer in made.model.model.layers:
            fully_shard(layer)
        fully_shard(made.model)
        made.accelerator.prepare_model = lambda model, **_: model
    made.train()
    wrapped = "fsdp2" if isinstance(made.model_wrapped, FSDPModule) else "ddp"
    assert wrapped == wrapper.partition(",")[0], type(made.model_wrapped)
    return steps_of(made)


def main(rank: int, what: str, folder: Path, port: int) -> None:
    """Write the results of "models" or "trainers" to ``folder``; rank 0 does."""
    set_environment(rank, 2, port)
    if what == "models":
        dist.init_process_group("gloo")
        result: dict[str, Any] = wrapped_models()
    else:
        result = trainers(folder)
    if rank == 0:
        (folder / f"{what}.json").write_text(json.dumps(result))
    if dist.is_initialized():
        dist.destroy_process_group()
