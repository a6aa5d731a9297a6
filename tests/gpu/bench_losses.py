"""Memory and time of the losses on a GPU, all ways to one loss in one process.

Cross entropy in the setting of the cut-cross-entropy paper: Gemma-2 2B's head (256,000 x 2,304,
bfloat16), 8,192 tokens, forward and backward, against cut-cross-entropy, Liger, PyTorch's chunked
one, torch.compile and plain. DPO, KTO and GRPO against Liger and TRL's fused head. To reach:
memory at most 1.05 and time at most 1.0 of cut-cross-entropy's; preference losses in a third of
Liger's memory at no more time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from tests.bench import losses as ways
from tests.bench.losses import Inputs
from tests.gpu.harness import Result, Step

Way = Callable[[Inputs], Tensor]
REPEATS = 10


def _inputs(*, head_trained: bool) -> Inputs:
    torch.manual_seed(0)
    rows, length = ways.ROWS, ways.TOKENS // ways.ROWS
    hidden = torch.randn(rows, length, ways.WIDTH, device="cuda", dtype=torch.bfloat16)
    weight = torch.randn(ways.VOCABULARY, ways.WIDTH, device="cuda", dtype=torch.bfloat16) * 0.02
    target = torch.randint(0, ways.VOCABULARY, (rows, length), device="cuda")
    return Inputs(hidden.requires_grad_(), weight.requires_grad_(head_trained), target)


def _measure(way: Way, inputs: Inputs) -> Result:
    """Median milliseconds of forward and backward; MiB at their peaks beyond the inputs."""

    def reset() -> None:
        inputs.hidden.grad = inputs.weight.grad = None

    try:
        for _ in range(3):
            way(inputs).backward()
            reset()
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        loss = way(inputs)
        forward_peak = torch.cuda.max_memory_allocated() - before
        loss.backward()
        value, peak = float(loss.detach()), torch.cuda.max_memory_allocated() - before
        reset()
        times = []
        for _ in range(REPEATS):
            marks = [torch.cuda.Event(enable_timing=True) for _ in range(3)]
            marks[0].record()
            loss = way(inputs)
            marks[1].record()
            loss.backward()
            marks[2].record()
            torch.cuda.synchronize()
            times.append((marks[0].elapsed_time(marks[1]), marks[1].elapsed_time(marks[2])))
            reset()
    except Exception as error:
        reset()
        return {"error": f"{type(error).__name__}: {error}"[:300]}
    middle = sorted(times, key=sum)[len(times) // 2]
    return {
        "loss": value,
        "peak_mib": peak / ways.MIB,
        "forward_peak_mib": forward_peak / ways.MIB,
        "forward_ms": middle[0],
        "backward_ms": middle[1],
        "ms": sum(middle),
    }


def _compare(named: dict[str, Way], *, head_trained: bool) -> dict[str, Any]:
    inputs = _inputs(head_trained=head_trained)
    floor = ways.gradient_bytes(head_trained=head_trained) / ways.MIB
    found: dict[str, Any] = {"floor_mib": floor}
    for name, way in named.items():
        found[name] = _measure(way, inputs)
        torch.cuda.empty_cache()
    return found


def _ratios(found: dict[str, Any], peer: str) -> None:
    ours, theirs = found["ours"], found[peer]
    if "error" not in ours and "error" not in theirs:
        found[f"ours_to_{peer}"] = {
            "memory": ours["peak_mib"] / theirs["peak_mib"],
            "time": ours["ms"] / theirs["ms"],
        }


def _cut_cross_entropy(inputs: Inputs) -> Tensor:
    from cut_cross_entropy import linear_cross_entropy

    result: Tensor = linear_cross_entropy(
        inputs.hidden.flatten(0, 1), inputs.weight, inputs.target.flatten()
    )
    return result


def _cut_cross_entropy_exact(inputs: Inputs) -> Tensor:
    """Without its filter, and with sums in float32, as ours are."""
    from cut_cross_entropy import linear_cross_entropy

    result: Tensor = linear_cross_entropy(
        inputs.hidden.flatten(0, 1), inputs.weight, inputs.target.flatten(), impl="cce_exact"
    )
    return result


def _liger_cross_entropy(inputs: Inputs) -> Tensor:
    from liger_kernel.transformers import LigerFusedLinearCrossEntropyLoss

    loss = LigerFusedLinearCrossEntropyLoss()
    result: Tensor = loss(inputs.weight, inputs.hidden.flatten(0, 1), inputs.target.flatten())
    return result


def _over(log_probabilities: ways.LogProbs, loss: ways.Loss) -> Way:
    return lambda inputs: loss(log_probabilities(inputs))


def _cross_entropy(*, head_trained: bool) -> Result:
    # Compiled code is traced under the benchmark's shapes only.
    compiled = torch.compile(_over(ways.plain, ways.mean_loss))
    found = _compare(
        {
            "ours": _over(ways.ours, ways.mean_loss),
            "cut_cross_entropy": _cut_cross_entropy,
            "cut_cross_entropy_exact": _cut_cross_entropy_exact,
            "liger": _liger_cross_entropy,
            "torch": ways.torch_linear,
            "trl": _over(ways.trl, ways.mean_loss),
            "torch_compile": compiled,
            "plain": _over(ways.plain, ways.mean_loss),
        },
        head_trained=head_trained,
    )
    found["ours_in_forward"] = _measure(ways.ours_in_forward, _inputs(head_trained=head_trained))
    for peer in (
        "cut_cross_entropy",
        "cut_cross_entropy_exact",
        "liger",
        "torch",
        "trl",
        "torch_compile",
    ):
        _ratios(found, peer)
    return found


def _preference(name: str, *, head_trained: bool) -> Result:
    found = _compare(
        {
            "ours": _over(ways.ours, ways.LOSSES[name]),
            "trl": _over(ways.trl, ways.LOSSES[name]),
            "liger": lambda inputs: ways.liger(name, compiled=True)(inputs),
        },
        head_trained=head_trained,
    )
    for peer in ("trl", "liger"):
        _ratios(found, peer)
    return found


def _workspaces() -> Result:
    """What a smaller or larger workspace costs and buys, for the default to be chosen by."""
    from memlint_runtime.losses import token_logprobs

    inputs = _inputs(head_trained=True)
    found: dict[str, Any] = {}
    for mib in (16, 32, 64, 84, 128, 256, 512):

        def way(inputs: Inputs, mib: int = mib) -> Tensor:
            workspace = mib * ways.MIB
            return -token_logprobs(
                inputs.hidden, inputs.weight, inputs.target, workspace_bytes=workspace
            ).mean()

        found[f"{mib} MiB"] = _measure(way, inputs)
    return found


STEPS = (
    Step("losses_cross_entropy", lambda: _cross_entropy(head_trained=True), minutes=6),
    Step("losses_cross_entropy_frozen", lambda: _cross_entropy(head_trained=False), minutes=6),
    *(
        Step(
            f"losses_{name.lower()}{'' if trained else '_frozen'}",
            lambda name=name, trained=trained: _preference(name, head_trained=trained),
            minutes=5,
        )
        for name in ("DPO", "KTO", "GRPO")
        for trained in (True, False)
    ),
    Step("losses_workspaces", _workspaces, minutes=4),
)
