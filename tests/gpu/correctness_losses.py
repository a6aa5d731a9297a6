"""Log-probabilities on CUDA against the plain fp32 computation, in every precision of a head."""

from __future__ import annotations

import torch
from memlint_runtime import token_logprobs

from tests.gpu.harness import Result, Step, require
from tests.runtime.losses.plain import Problem, make_problem, plain_statistics, worst

SLACK = 1.05


def _compare(dtype: torch.dtype, *, softcap: float | None, workspace_bytes: int | None) -> Result:
    half = make_problem(1000, 256, 5003, dtype=dtype)
    hidden, weight, target = half.hidden.cuda(), half.weight.cuda(), half.target.cuda()
    exact = [leaf.detach().double().requires_grad_() for leaf in (hidden, weight)]
    leaves = [leaf.detach().requires_grad_() for leaf in (hidden, weight)]
    by = torch.randn(1000, device="cuda")
    truth = plain_statistics(*exact, target, softcap=softcap)[0]
    plain = plain_statistics(*leaves, target, softcap=softcap)[0]
    ours = token_logprobs(*leaves, target, softcap=softcap, workspace_bytes=workspace_bytes)
    expected = torch.autograd.grad(truth, exact, by.double())
    gradients = {
        name: torch.autograd.grad(values, leaves, by)
        for name, values in (("ours", ours), ("plain", plain))
    }
    errors: dict[str, tuple[float, ...]] = {
        name: (worst(values, truth), *map(worst, gradients[name], expected))
        for name, values in (("ours", ours), ("plain", plain))
    }
    slack = 1e-5 if dtype == torch.float32 else 0.0
    for mine, theirs in zip(errors["ours"], errors["plain"], strict=True):
        if mine > max(theirs * SLACK, slack):
            raise AssertionError(f"further from the exact result than plain: {errors}")
    return {name: list(values) for name, values in errors.items()}


def _all(dtype: torch.dtype) -> Result:
    torch.backends.cuda.matmul.allow_tf32 = False
    return {
        f"softcap={softcap} workspace={workspace}": _compare(
            dtype, softcap=softcap, workspace_bytes=workspace
        )
        for softcap in (None, 10.0)
        for workspace in (None, 4 * 2**20)
    }


def _triton() -> Result:
    """The kernels beside PyTorch's tile operations, and a pass through all layers."""
    require("triton")
    from tests.runtime.losses.triton_check import check_all, check_whole

    torch.backends.cuda.matmul.allow_tf32 = False
    comparisons = check_all("cuda")
    check_whole("cuda")
    return {"comparisons": comparisons}


def _every_loss(device: str = "cuda") -> Result:
    """Values and gradients of each loss on a device, fp32, beside its plain form."""
    # Before the cases are imported: they draw their constants where new tensors go.
    torch.set_default_device(device)
    from tests.runtime.losses.cases import CASES

    torch.backends.cuda.matmul.allow_tf32 = False
    errors = {}
    for name, case in CASES.items():
        if name.startswith(("forward_kl", "reverse_kl", "jensen")):
            continue  # their teacher is drawn by a CPU generator
        made = make_problem_on(device)
        hidden = made.hidden.detach().view(4, 9, 12).requires_grad_()
        weight, target = made.weight, made.target.view(4, 9)
        found = []
        for run in (case.ours, case.plain):
            loss = run(hidden, weight, target, {"softcap": 5.0})
            found.append((loss, *torch.autograd.grad(loss, [hidden, weight])))
        errors[name] = max(map(worst, *found))
    wrong = {name: error for name, error in errors.items() if error > 1e-5}
    if wrong:
        raise AssertionError(f"further than 1e-5 from plain: {wrong}")
    return {"losses": len(errors), "worst": max(errors.values())}


def make_problem_on(device: str) -> Problem:
    """A problem drawn on the CPU, on a device."""
    with torch.device("cpu"):
        made = make_problem(36, 12, 83)
    hidden, weight = (
        leaf.detach().to(device).requires_grad_() for leaf in (made.hidden, made.weight)
    )
    return Problem(hidden, weight, made.target.to(device))


STEPS = (
    Step("losses_triton_kernels", _triton),
    Step("losses_all_on_cuda", _every_loss),
    Step("token_logprobs_float32", lambda: _all(torch.float32)),
    Step("token_logprobs_bfloat16", lambda: _all(torch.bfloat16)),
    Step("token_logprobs_float16", lambda: _all(torch.float16)),
)
