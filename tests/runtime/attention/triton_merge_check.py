"""The merge kernel beside PyTorch's own steps, and under a whole attention; run where kernels can.

On a GPU, or with TRITON_INTERPRET=1 set before this is imported.
"""

from __future__ import annotations

from unittest.mock import patch

import torch
from memlint_runtime.attention import attend_dense_packed, dense_mask
from memlint_runtime.attention.kernels import joined, triton_merge
from memlint_runtime.attention.kernels.joined import joined_attention
from memlint_runtime.attention.plan import plan_runs

from tests.runtime.shared_prompt.trees import DEEP_ROWS, random_rows, tree_of


def check_merges(device: str) -> int:
    """Number of comparisons made. Raises AssertionError where the two differ."""
    count = 0
    for tokens, heads, width in ((40, 3, 16), (23, 2, 24), (9, 1, 128)):
        places = torch.randperm(tokens, device=device)[: tokens // 2]
        for where in (slice(tokens // 3, tokens), slice(None), places):
            for dtype, tolerance in ((torch.float32, 2e-5), (torch.float16, 2e-3)):
                torch.manual_seed(count)
                n = len(range(*where.indices(tokens))) if isinstance(where, slice) else len(where)
                out = torch.randn(tokens, heads, width, device=device).to(dtype)
                part = torch.randn(n, heads, width, device=device).to(dtype)
                lse = torch.randn(heads, tokens, device=device) * 20
                part_lse = torch.randn(heads, n, device=device) * 20
                part_lse[:, ::5] = -torch.inf  # a part that sees nothing
                expected, expected_lse = out.clone(), lse.clone()
                with patch.object(joined, "_has_triton", lambda *_: False):
                    joined._merge_(expected, expected_lse, where, part, part_lse)
                triton_merge.merge_(out, lse, where, part, part_lse)
                torch.testing.assert_close(out, expected, rtol=tolerance, atol=tolerance)
                torch.testing.assert_close(lse, expected_lse, rtol=1e-6, atol=1e-6)
                count += 1
    return count


def check_attention() -> int:
    """Trees of one level and of many, with the kernel in the place of PyTorch's steps."""
    trees = (tree_of(random_rows(1, 1, 4, 20, 7)), tree_of(DEEP_ROWS))
    for tree in trees:
        inputs = [torch.randn(tree.num_tokens, heads, 8, requires_grad=True) for heads in (4, 2, 2)]
        plan = plan_runs(tree, torch.device("cpu"))
        with patch.object(joined, "_has_triton", lambda *_: True):
            out = joined_attention(*inputs, plan, scale=0.3)
        expected = attend_dense_packed(*inputs, dense_mask(tree, None), scale=0.3)
        torch.testing.assert_close(out, expected, rtol=1e-5, atol=1e-5)
        by = torch.randn_like(out)
        for mine, theirs in zip(
            torch.autograd.grad(out, inputs, by),
            torch.autograd.grad(expected, inputs, by),
            strict=True,
        ):
            torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)
    return len(trees)


if __name__ == "__main__":
    print(check_merges("cpu") + check_attention())  # noqa: T201
