"""Memory and time of the losses on a GPU, all ways to one loss in one process.

Cross entropy in the setting of the cut-cross-entropy paper: Gemma-2 2B's head (256,000 x 2,304,
bfloat16), 8,192 tokens, forward and backward, against cut-cross-entropy, Liger, PyTorch's chunked
one, torch.compile and plain. DPO, KTO and GRPO against Liger and TRL's fused head. To reach:
memory at most 1.05 and time at most 1.0 of cut-cross-entropy's; preference losses in a third of
Liger's memory at no more time.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import torch
from memlint_runtime import losses
from memlint_runtime.losses import cost
from torch import Tensor

from tests.bench import losses as ways
from tests.bench import roofline
from tests.bench.losses import Inputs
from tests.gpu.harness import Result, Step

Way = Callable[[Inputs], Tensor]
HEADS = roofline.MODELS
REPEATS = 10
_MOST_MS = 1500.0


def _inputs(
    *,
    head_trained: bool,
    tokens: int | None = None,
    vocabulary: int | None = None,
    width: int | None = None,
) -> Inputs:
    """Gemma-2 2B's head and 8,192 tokens where not said otherwise."""
    torch.manual_seed(0)
    rows, length = ways.ROWS, (tokens or ways.TOKENS) // ways.ROWS
    width, vocabulary = width or ways.WIDTH, vocabulary or ways.VOCABULARY
    hidden = torch.randn(rows, length, width, device="cuda", dtype=torch.bfloat16)
    weight = torch.randn(vocabulary, width, device="cuda", dtype=torch.bfloat16) * 0.02
    target = torch.randint(0, vocabulary, (rows, length), device="cuda")
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
        times: list[tuple[float, float]] = []
        while len(times) < REPEATS and (len(times) < 3 or sum(map(sum, times)) < _MOST_MS):
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
    """Without its filter."""
    from cut_cross_entropy import linear_cross_entropy

    result: Tensor = linear_cross_entropy(
        inputs.hidden.flatten(0, 1), inputs.weight, inputs.target.flatten(), filter_eps=None
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


def _heads(tokens: int) -> Result:
    """Three models' heads beside what the cost model says, to choose plans by."""
    rates = cost.rates_of(torch.device("cuda"))
    found: dict[str, Any] = {"rates": rates.name}
    for model, (vocabulary, width) in HEADS.items():
        inputs = _inputs(head_trained=True, tokens=tokens, vocabulary=vocabulary, width=width)
        shape = rates, vocabulary, width, tokens
        named: dict[str, tuple[Way, Callable[[], roofline.Answer | None]]] = {
            "ours": (ways.ours_in_forward, lambda shape=shape: roofline.ours(*shape)),
            "cut_cross_entropy": (
                _cut_cross_entropy, lambda shape=shape: roofline.cut_cross_entropy(*shape)
            ),
            "cut_cross_entropy_exact": (
                _cut_cross_entropy_exact, lambda shape=shape: roofline.exact(*shape)
            ),
            "liger": (_liger_cross_entropy, lambda shape=shape: roofline.liger(*shape)),
            "plain": (
                _over(ways.plain, ways.mean_loss), lambda shape=shape: roofline.plain(*shape)
            ),
        }  # fmt: skip
        for mib in (64, 256, 1024):
            named[f"ours_{mib}_mib"] = (
                lambda given, mib=mib: losses.cross_entropy(
                    given.hidden, given.weight, given.target, workspace_bytes=mib * ways.MIB
                ),
                lambda shape=shape, mib=mib: roofline.ours(*shape, mib * ways.MIB),
            )
        here: dict[str, Any] = {}
        for name, (way, answer) in named.items():
            here[name] = _measure(way, inputs)
            torch.cuda.empty_cache()
            predicted = answer()
            here[name]["predicted_ms"] = predicted and 1e3 * predicted.seconds
        for peer in ("cut_cross_entropy", "cut_cross_entropy_exact", "liger", "plain"):
            _ratios(here, peer)
        found[model] = here
    return found


def _rates() -> Result:
    """What products, copies and launches reach: the figures that the cost model rests on."""
    found: dict[str, Any] = {}
    for vocabulary, width in HEADS.values():
        hidden = torch.randn(8192, width, device="cuda", dtype=torch.bfloat16)
        weight = torch.randn(vocabulary, width, device="cuda", dtype=torch.bfloat16)
        logits = torch.empty(8192, vocabulary, device="cuda", dtype=torch.bfloat16)
        ms = _ms(lambda a=hidden, b=weight, c=logits: torch.mm(a, b.T, out=c))
        found[f"product_{vocabulary}_teraflops"] = 2 * 8192 * vocabulary * width / ms / 1e9
        ms = _ms(lambda a=hidden, b=weight, c=logits: torch.mm(c.T, a, out=b))
        found[f"weights_product_{vocabulary}_teraflops"] = 2 * 8192 * vocabulary * width / ms / 1e9
        del hidden, weight, logits
    for mib in (64, 1024, 4096):
        source = torch.randn(mib * 2**18, device="cuda")
        target = torch.empty_like(source)
        ms = _ms(lambda a=target, b=source: a.copy_(b))
        found[f"copy_{mib}_mib_gigabytes_per_second"] = 2 * source.nbytes / ms / 1e6
    small = torch.zeros(64, device="cuda")
    found["launch_ms"] = _ms(lambda: [small.add_(1.0) for _ in range(1000)]) / 1000
    return found


def _ms(run: Callable[[], object]) -> float:
    """Median milliseconds of a call."""
    times = []
    for _ in range(3 + REPEATS):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        run()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end))
    return max(statistics.median(times[3:]), 1e-6)


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
    Step("losses_rates", _rates, minutes=1),
    Step("losses_heads_8k", lambda: _heads(8192), minutes=4),
    Step("losses_heads_32k", lambda: _heads(32_768), minutes=4),
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
