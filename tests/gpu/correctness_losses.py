"""Log-probabilities on CUDA against the plain fp32 computation, in every precision of a head."""

from __future__ import annotations

import torch
from memlint_runtime import token_logprobs

from tests.gpu.harness import Result, Step
from tests.runtime.losses.plain import make_problem, plain_statistics, worst


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
        if mine > max(theirs * 1.05, slack):
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


STEPS = (
    Step("token_logprobs_float32", lambda: _all(torch.float32)),
    Step("token_logprobs_bfloat16", lambda: _all(torch.bfloat16)),
    Step("token_logprobs_float16", lambda: _all(torch.float16)),
)
