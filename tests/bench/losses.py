"""Memory and time of the fused losses: `python -m tests.bench.losses`.

Memory: Gemma-2 2B's head (256,000 x 2,304, bfloat16) over 8,192 tokens, under fake tensors, as the
bytes that are alive beyond the inputs at the peak of forward and backward. Competitors run their
own code: TRL's with its Triton kernels left out (they allocate nothing), Liger's preference losses
uncompiled. What needs a GPU to run at all is said to be not measured. Time: a smaller head, on this
CPU, for what that says. Training: losses side by side.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from memlint_runtime import losses
from memlint_runtime.fake_memory import track_memory
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional

MIB = 2**20
TOKENS, WIDTH, VOCABULARY, ROWS = 8192, 2304, 256_000, 8


@dataclass(frozen=True)
class Inputs:
    """Hidden states `[rows, L, D]`, head `[V, D]`, targets `[rows, L]`."""

    hidden: Tensor
    weight: Tensor
    target: Tensor


LogProbs = Callable[[Inputs], Tensor]
Loss = Callable[[Tensor], Tensor]


# -- losses over log-probabilities [rows, L] ------------------------------------------------------


def mean_loss(logprobs: Tensor) -> Tensor:
    return -logprobs.mean()


def dpo(logprobs: Tensor) -> Tensor:
    chosen, rejected = logprobs.sum(-1).chunk(2)
    return losses.dpo_loss(chosen, rejected, chosen.detach(), rejected.detach()).mean()


def kto(logprobs: Tensor) -> Tensor:
    sums = logprobs.sum(-1)
    desirable = torch.arange(len(sums), device=sums.device) % 2 == 0
    return losses.kto_loss(sums, sums.detach(), desirable, 0.0).mean()


def grpo(logprobs: Tensor) -> Tensor:
    advantages = torch.ones(len(logprobs), device=logprobs.device)
    return losses.policy_loss(
        logprobs,
        advantages,
        torch.ones_like(logprobs),
        reference_logprobs_BL=logprobs.detach(),
        beta=0.04,
    )


LOSSES: dict[str, Loss] = {"cross entropy": mean_loss, "DPO": dpo, "KTO": kto, "GRPO": grpo}


# -- ways to the log-probabilities, or straight to the loss ---------------------------------------


def ours(inputs: Inputs) -> Tensor:
    return losses.token_logprobs(inputs.hidden, inputs.weight, inputs.target)


def ours_in_forward(inputs: Inputs) -> Tensor:
    """The mean loss, whose gradients the forward pass may make."""
    return losses.cross_entropy(inputs.hidden, inputs.weight, inputs.target)


def plain(inputs: Inputs) -> Tensor:
    logits = (inputs.hidden @ inputs.weight.T).float()
    return logits.log_softmax(-1).gather(-1, inputs.target[..., None])[..., 0]


def trl(inputs: Inputs) -> Tensor:
    from trl.kernels import ChunkedLogProbFunction
    from trl.trainer import utils

    found = ChunkedLogProbFunction.apply(
        inputs.hidden.flatten(0, 1),
        inputs.weight,
        None,
        inputs.target.flatten(),
        1.0,
        utils._CHUNKED_LOGPROB_CHUNK_SIZE,
        None,
        1.0,
        ("log_probs",),
    )
    return found[0].view(inputs.target.shape)


@contextlib.contextmanager
def trl_without_its_kernels() -> Iterator[None]:
    """TRL as on a GPU: its kernels work in place, and its sums in fp32 allocate nothing."""
    from trl.kernels import chunked_logprob

    class Nothing:
        def __getitem__(self, grid: object) -> Callable[..., None]:
            return lambda *args, **kwargs: None

    with (
        mock.patch.object(chunked_logprob, "_use_triton", return_value=True),
        mock.patch.object(chunked_logprob, "_forward_kernel", Nothing()),
        mock.patch.object(chunked_logprob, "_backward_kernel", Nothing()),
        mock.patch.object(chunked_logprob, "_addmm_fp32", return_value=None),
        mock.patch.object(chunked_logprob, "triton", mock.Mock(), create=True),
    ):
        yield


def torch_linear(inputs: Inputs) -> Tensor:
    from torch.nn import LinearCrossEntropyOptions

    return functional.linear_cross_entropy(
        inputs.hidden.flatten(0, 1),
        inputs.weight,
        inputs.target.flatten(),
        options=LinearCrossEntropyOptions(),
    )


def liger(name: str, *, compiled: bool = False) -> Callable[[Inputs], Tensor]:
    from liger_kernel import chunked_loss

    def run(inputs: Inputs) -> Tensor:
        device = inputs.hidden.device
        mask = torch.ones(inputs.target.shape, device=device)
        if name == "DPO":
            loss = chunked_loss.LigerFusedLinearDPOLoss(compiled=compiled, use_ref_model=False)
            return loss(inputs.weight, inputs.hidden, inputs.target)[0]
        if name == "KTO":
            loss = chunked_loss.LigerFusedLinearKTOLoss(compiled=compiled, use_ref_model=False)
            labels = torch.arange(ROWS, device=device) % 2 == 0
            return loss(
                inputs.hidden,
                inputs.weight,
                inputs.target,
                preference_labels=labels,
                kl=torch.zeros((), device=device),
            )[0]
        loss = chunked_loss.LigerFusedLinearGRPOLoss(compiled=compiled, use_ref_model=True)
        reference = torch.zeros(inputs.target.shape, device=device)
        return loss(
            inputs.hidden,
            inputs.weight,
            inputs.target,
            mask,
            torch.ones(ROWS, device=device),
            ref_per_token_logps=reference,
            old_per_token_logps=reference,
        )[0]

    return run


# -- memory ---------------------------------------------------------------------------------------


def peak_bytes(
    run: Callable[[Inputs], Tensor], *, head_trained: bool, gradients_in_forward: bool = False
) -> int:
    """Bytes beyond the inputs at the peak of forward and backward, gradients included.

    A loss that makes its gradients in the forward pass only hands them over in backward.
    """
    with FakeTensorMode():
        hidden = torch.empty(ROWS, TOKENS // ROWS, WIDTH, dtype=torch.bfloat16, requires_grad=True)
        weight = torch.empty(VOCABULARY, WIDTH, dtype=torch.bfloat16, requires_grad=head_trained)
        target = torch.empty(ROWS, TOKENS // ROWS, dtype=torch.long)
        inputs = Inputs(hidden, weight, target)
        given = sum(tensor.numel() * tensor.element_size() for tensor in (hidden, weight, target))
        with track_memory() as tracker:
            loss = run(inputs)
            if not gradients_in_forward:
                loss.backward()
        return tracker.peak.total - given


def gradient_bytes(*, head_trained: bool) -> int:
    """The floor: what the caller gets back."""
    return 2 * (TOKENS * WIDTH + (VOCABULARY * WIDTH if head_trained else 0))


def measure(run: Callable[[Inputs], Tensor], **options: bool) -> int | str:
    try:
        return peak_bytes(run, **options)
    except Exception as error:
        return f"not measured ({type(error).__name__})"


def memory_table(*, head_trained: bool) -> list[dict[str, Any]]:
    """One row a loss, MiB beyond the inputs."""
    floor = gradient_bytes(head_trained=head_trained)
    declared = losses.default_workspace_bytes(TOKENS, WIDTH, torch.bfloat16)
    rows = []
    for name, loss in LOSSES.items():

        def over(way: LogProbs, loss: Loss = loss) -> Callable[[Inputs], Tensor]:
            return lambda inputs: loss(way(inputs))

        row: dict[str, Any] = {"loss": name, "floor": floor}
        row["ours"] = measure(over(ours), head_trained=head_trained)
        with trl_without_its_kernels():
            row["trl"] = measure(over(trl), head_trained=head_trained)
        row["liger"] = (
            "needs a GPU"
            if name == "cross entropy"
            else measure(liger(name), head_trained=head_trained, gradients_in_forward=True)
        )
        row["torch"] = (
            measure(torch_linear, head_trained=head_trained) if name == "cross entropy" else "-"
        )
        row["plain"] = measure(over(plain), head_trained=head_trained)
        assert isinstance(row["ours"], int)
        row["within"] = row["ours"] <= floor + declared
        row["ratio"] = row["ours"] / (floor + declared)
        rows.append(row)
    return rows


def print_memory() -> None:
    declared = losses.default_workspace_bytes(TOKENS, WIDTH, torch.bfloat16)
    for head_trained in (True, False):
        print(
            f"\n{'Trained' if head_trained else 'Frozen'} head, {TOKENS} tokens, D {WIDTH}, "
            f"V {VOCABULARY}, bf16: MiB beyond inputs; declared workspace {declared / MIB:.0f}"
        )
        columns = ("floor", "ours", "trl", "liger", "torch", "plain")
        print(f"{'loss':14}" + "".join(f"{column:>13}" for column in columns) + "  ours/(floor+ws)")
        for row in memory_table(head_trained=head_trained):
            cells = [
                f"{row[column] / MIB:13.0f}" if isinstance(row[column], int) else row[column][:12]
                for column in columns
            ]
            print(
                f"{row['loss']:14}"
                + "".join(f"{cell:>13}" for cell in cells)
                + f"  {row['ratio']:.3f}"
            )


# -- time -----------------------------------------------------------------------------------------


def print_time(tokens: int = 1024, width: int = 512, vocabulary: int = 32_000) -> None:
    """Forward and backward, fp32, the best of five; each beside plain in the same run."""
    torch.manual_seed(0)
    ways: dict[str, Callable[[Inputs], Tensor]] = {
        "plain": lambda inputs: mean_loss(plain(inputs)),
        "ours": ours_in_forward,
        "ours, by token": lambda inputs: mean_loss(ours(inputs)),
        "ours, recomputing": lambda inputs: (
            -losses.token_logprobs(
                inputs.hidden, inputs.weight, inputs.target, workspace_bytes=8 * MIB
            ).mean()
        ),
        "torch": torch_linear,
    }
    for head_trained in (True, False):
        inputs = Inputs(
            torch.randn(ROWS, tokens // ROWS, width, requires_grad=True),
            (torch.randn(vocabulary, width) * 0.05).requires_grad_(head_trained),
            torch.randint(0, vocabulary, (ROWS, tokens // ROWS)),
        )
        best: dict[str, float] = {}
        for _ in range(5):
            for name, way in ways.items():
                started = time.perf_counter()
                with contextlib.suppress(AttributeError, ImportError):
                    way(inputs).backward()
                    spent = time.perf_counter() - started
                    best[name] = min(best.get(name, spent), spent)
                inputs.hidden.grad = inputs.weight.grad = None
        print(f"\nCPU, fp32, T {tokens}, D {width}, V {vocabulary}, head trained: {head_trained}")
        for name, spent in best.items():
            print(f"{name:20} {spent * 1e3:8.0f} ms  {spent / best['plain']:.2f} of plain")


def print_tiny(rounds: int = 500) -> None:
    """Forward and backward, fp32, both trained: where the overhead of a call shows. In pairs."""
    ways: dict[str, tuple[Callable[[Inputs], Tensor], Callable[[Inputs], Tensor]]] = {
        "cross entropy": (
            lambda inputs: functional.cross_entropy(
                functional.linear(inputs.hidden, inputs.weight), inputs.target
            ),
            ours_in_forward,
        ),
        "by token": (
            lambda inputs: mean_loss(plain(inputs)),
            lambda inputs: mean_loss(ours(inputs)),
        ),
    }
    for tokens, vocabulary, width in ((64, 2000, 64), (16, 500, 32)):
        inputs = Inputs(
            torch.randn(tokens, width, requires_grad=True),
            (torch.randn(vocabulary, width) * 0.05).requires_grad_(),
            torch.randint(0, vocabulary, (tokens,)),
        )
        for name, pair in ways.items():
            spent: tuple[list[int], list[int]] = ([], [])
            for turn in range(rounds):
                for way in (turn % 2, 1 - turn % 2):
                    inputs.hidden.grad = inputs.weight.grad = None
                    started = time.thread_time_ns()
                    pair[way](inputs).backward()
                    spent[way].append(time.thread_time_ns() - started)
            ratios = [b / a for a, b in zip(*spent, strict=True)]
            low, middle, high = statistics.quantiles(ratios[rounds // 10 :], n=4)
            print(
                f"{tokens} x {vocabulary} x {width}, {name}: plain "
                f"{statistics.median(spent[0]) / 1e3:.0f} us, ours {middle:.2f} of that, quartiles "
                f"{low:.2f} to {high:.2f}"
            )


# -- training -------------------------------------------------------------------------------------


def print_training(steps: int) -> None:
    from tests.runtime.losses import training

    runs: dict[str, Callable[[Path, bool], list[float]]] = {
        "Trainer": lambda folder, fused: training.train_trainer(folder, steps, fused=fused)
    }
    for kind in ("dpo", "kto", "grpo", "orpo", "cpo"):
        runs[f"TRL {kind}"] = lambda folder, fused, kind=kind: training.train_trl(
            kind, folder, steps, fused=fused
        )
    print(f"\n{steps} steps, fused and plain: loss at each tenth of the run, largest difference")
    for name, run in runs.items():
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(None):
            fused, usual = run(Path(folder), True), run(Path(folder), False)
        every = slice(None, None, max(1, steps // 10))
        print(f"{name}: difference at most {training.deviation(fused, usual):.1e}")
        for label, curve in (("fused", fused), ("plain", usual)):
            print(f"  {label}: " + " ".join(f"{loss:8.4f}" for loss in curve[every]))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.losses", description=__doc__)
    parser.add_argument("--training-steps", type=int, default=0, help="also train, this long")
    parser.add_argument("--skip-memory", action="store_true")
    parser.add_argument("--skip-time", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    versions = ("torch", "transformers", "trl", "liger-kernel")
    print(", ".join(f"{name} {importlib.metadata.version(name)}" for name in versions))
    if not options.skip_memory:
        print_memory()
    if not options.skip_time:
        print_time()
        print_tiny()
    if options.training_steps:
        print_training(options.training_steps)


if __name__ == "__main__":
    main()
