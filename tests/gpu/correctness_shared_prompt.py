"""Shared prompts on CUDA: attention paths against the oracle, models against the repeated batch."""

from __future__ import annotations

import torch
from memlint_runtime import shared_prompt_logprobs
from memlint_runtime.attention import AttentionPath
from memlint_runtime.shared_prompt import Sharing
from memlint_runtime.shared_prompt.self_test import TOLERATED, errors_of_path
from torch import Tensor, nn

from tests.gpu.harness import Result, Step, require
from tests.runtime.shared_prompt.models import CONFIGS, MOE, batch, gradients, repeated, tiny

ROUNDING = 1e-5
SIZES = {"llama": (32, 8, 128), "qwen": (28, 4, 128), "gemma": (8, 4, 256), "small": (4, 4, 64)}


def attention(path: AttentionPath, dtype: torch.dtype) -> Result:
    """Errors of output, dQ, dK, dV against float32, beside the dense path's own in this type."""
    features: list[tuple[int | None, float | None]] = [(None, None)]
    if path != "joined":
        features += [(40, None), (None, 5.0), (40, 5.0)]
    result: Result = {}
    for name, sizes in SIZES.items():
        for window, softcap in features:
            found, plain = errors_of_path(
                path, torch.device("cuda"), dtype, sizes, window=window, softcap=softcap
            )
            result[f"{name} window={window} softcap={softcap}"] = {"path": found, "dense": plain}
            # In float32 the dense path is the exact result itself.
            pairs = zip(found, plain, strict=True)
            if any(mine > max(TOLERATED * other, ROUNDING) for mine, other in pairs):
                raise AssertionError(f"{path} is wrong: {result}")
    return result


def model(name: str) -> Result:
    """Error of log-probabilities and of all gradients together in bfloat16: ours and the repeated
    batch's, both against the repeated batch in float32."""
    inputs = tuple(x.cuda() for x in batch([8, 3, 1], prompt=300, completion=80))
    # All experts are chosen: of few, a rounding flips a choice now and then, in any path.
    every = {"num_experts_per_tok": 4} if name in MOE else {}
    net = tiny(name, checkpointing=True, implementation="eager", **every).cuda()
    torch.backends.cuda.matmul.allow_tf32 = False
    weigh = torch.randn(inputs[2].shape, device="cuda")

    def outcome(net: nn.Module, logprobs: Tensor) -> tuple[Tensor, Tensor]:
        grads = gradients((logprobs * weigh).sum(), net)
        return logprobs.detach(), torch.cat([grads[n].float().flatten() for n in sorted(grads)])

    exact = outcome(net, repeated(net, *inputs)[0])
    ours_32 = outcome(net, shared_prompt_logprobs(net, *inputs))
    net = net.bfloat16()
    plain = outcome(net, repeated(net, *inputs)[0])
    errors: Result = {}
    for what, sharing in (
        ("whole", Sharing()),
        ("two phases", Sharing(token_budget=400)),
        ("blockwise", Sharing(attention="blockwise")),
    ):
        found = outcome(net, shared_prompt_logprobs(net, *inputs, sharing=sharing))
        ours, theirs = (
            [float((x - e).norm() / e.norm()) for x, e in zip(pair, exact, strict=True)]
            for pair in (found, plain)
        )
        errors[what] = {"ours": ours, "repeated": theirs}
        if any(mine > 1.5 * other for mine, other in zip(ours, theirs, strict=True)):
            raise AssertionError(f"{name} is further from float32 than repeated: {errors}")
    float32 = [float((x - e).norm() / e.norm()) for x, e in zip(ours_32, exact, strict=True)]
    errors["float32"] = float32
    if max(float32) > 1e-4:
        raise AssertionError(f"{name} is not exact in float32: {errors}")
    return errors


def merges() -> Result:
    """The merge kernel beside PyTorch's steps."""
    require("triton")
    from tests.runtime.attention.triton_merge_check import check_merges

    return {"comparisons": check_merges("cuda")}


def models() -> Result:
    return {name: model(name) for name in CONFIGS}


def ratio_at_step_0() -> Result:
    """TRL's trainer with bfloat16 autocast: old and new log-probabilities of the first step."""
    import tempfile
    from pathlib import Path
    from typing import Any

    from memlint_runtime.trl import GRPOTrainer
    from trl import GRPOConfig

    from tests.runtime.shared_prompt.training import prompts, reward, saved_model, tokenizer

    worst: list[float] = []

    class Watched(GRPOTrainer):
        def _get_per_token_logps_and_entropies(self, *args: Any, **kwargs: Any) -> Any:
            self.last = super()._get_per_token_logps_and_entropies(*args, **kwargs)
            return self.last

        def _compute_loss(self, model: Any, inputs: Any) -> Tensor:
            loss: Tensor = super()._compute_loss(model, inputs)
            if self.state.global_step == 0:
                kept = inputs["completion_mask"].bool()
                gap = (self.last[0] - inputs["old_per_token_logps"])[kept]
                worst.append(float(gap.detach().abs().max()))
            return loss

    with tempfile.TemporaryDirectory() as folder:
        made = Watched(
            model=saved_model(Path(folder) / "model", "qwen3"),
            reward_funcs=reward,
            processing_class=tokenizer(),
            train_dataset=prompts(),
            args=GRPOConfig(
                output_dir=folder,
                max_steps=3,
                per_device_train_batch_size=8,
                gradient_accumulation_steps=2,
                num_generations=4,
                max_completion_length=24,
                num_iterations=2,
                logging_steps=1,
                report_to=[],
                save_strategy="no",
                bf16=True,
            ),
        )
        made.train()
    logs = [entry for entry in made.state.log_history if "loss" in entry]
    if max(worst) != 0.0:
        raise AssertionError(f"the ratio at step 0 is not 1: {worst}")
    return {"worst_gap": worst, "rho": [entry["shared_prompt/rho"] for entry in logs]}


STEPS = (
    Step("shared_prompt_joined_bfloat16", lambda: attention("joined", torch.bfloat16)),
    Step("shared_prompt_joined_float16", lambda: attention("joined", torch.float16)),
    Step("shared_prompt_flex_bfloat16", lambda: attention("flex", torch.bfloat16), 6.0),
    Step("shared_prompt_flex_float32", lambda: attention("flex", torch.float32), 6.0),
    Step("shared_prompt_blockwise_bfloat16", lambda: attention("blockwise", torch.bfloat16)),
    Step("shared_prompt_merge_kernel", merges),
    Step("shared_prompt_models", models, 8.0),
    Step("shared_prompt_ratio_at_step_0", ratio_at_step_0, 4.0),
)
