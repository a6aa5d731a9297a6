"""The merge kernel beside PyTorch's own steps, and under a whole attention; run where kernels can.

On a GPU, or with TRITON_INTERPRET=1 set before this is imported.
"""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import torch
from memlint_runtime.attention import attend_dense_packed, dense_mask
from memlint_runtime.attention.kernels import joined, triton_merge
from memlint_runtime.attention.kernels.joined import joined_attention
from memlint_runtime.attention.plan import plan_runs
from torch import Tensor

from tests.runtime.float64 import in_float64, judge
from tests.runtime.shared_prompt.trees import DEEP_ROWS, random_rows, tree_of


def check_merges(device: str) -> int:
    """Number of comparisons made. Raises AssertionError where the two differ."""
    count = 0
    # Warps of a program drift apart only on a GPU, and where programs are many.
    many = ((4096, 32, 128), (3000, 28, 64)) if device == "cuda" else ()
    for tokens, heads, width in ((40, 3, 16), (23, 2, 24), (9, 1, 128), *many):
        places = torch.randperm(tokens, device=device)[: tokens // 2]
        for where in (slice(tokens // 3, tokens), slice(None), places):
            for dtype in (torch.float32, torch.float16):
                torch.manual_seed(count)
                n = len(range(*where.indices(tokens))) if isinstance(where, slice) else len(where)
                out = torch.randn(tokens, heads, width, device=device).to(dtype)
                part = torch.randn(n, heads, width, device=device).to(dtype)
                lse = torch.randn(heads, tokens, device=device) * 20
                part_lse = torch.randn(heads, n, device=device) * 20
                part_lse[:, ::5] = -torch.inf  # a part that sees nothing
                expected, expected_lse = out.clone(), lse.clone()
                exact, exact_lse = out.double(), lse.double()
                with patch.object(joined, "_has_triton", lambda *_: False):
                    joined._merge_(expected, expected_lse, where, part, part_lse)
                    joined._merge_(exact, exact_lse, where, part.double(), part_lse.double())
                triton_merge.merge_(out, lse, where, part, part_lse)
                judge(lse, expected_lse, exact_lse)
                if dtype == torch.float32:
                    judge(out, expected, exact)
                else:
                    torch.testing.assert_close(out, expected, rtol=2e-3, atol=2e-3)
                count += 1
    return count


def check_heads_far_apart() -> int:
    """An output that lies head by head, its third head more than 2**31 entries from its first."""
    apart, tokens, width = 2**30 + 2**26, 4, 16
    # Of this memory only what is written exists.
    memory = torch.empty(2 * apart + tokens * width, dtype=torch.float16)
    out = memory.as_strided((tokens, 3, width), (width, apart, 1))
    out.copy_(torch.randn(out.shape))
    near, lse, part_lse = out.clone(), torch.zeros(3, tokens), torch.zeros(3, tokens)
    part = torch.randn(tokens, 3, width).half()
    triton_merge.merge_(near, lse.clone(), slice(None), part, part_lse)
    triton_merge.merge_(out, lse, slice(None), part, part_lse)
    assert torch.equal(out, near)
    return 1


def check_attention() -> int:
    """Trees of one level and of many, with the kernel in the place of PyTorch's steps."""
    trees = (tree_of(random_rows(1, 1, 4, 20, 7)), tree_of(DEEP_ROWS))
    for tree in trees:
        inputs = [torch.randn(tree.num_tokens, heads, 8, requires_grad=True) for heads in (4, 2, 2)]
        plan, mask = plan_runs(tree, torch.device("cpu")), dense_mask(tree, None)
        by = torch.randn(tree.num_tokens, 4, 8)

        def dense(*inputs: Tensor, mask: Tensor = mask, by: Tensor = by) -> Any:
            out = attend_dense_packed(*inputs, mask, scale=0.3)
            return out, torch.autograd.grad(out, inputs, by.to(out))

        with patch.object(joined, "_has_triton", lambda *_: True):
            out = joined_attention(*inputs, plan, scale=0.3)
        ours = out, torch.autograd.grad(out, inputs, by)
        judge(ours, dense(*inputs), in_float64(dense, *inputs))
    return len(trees)


if __name__ == "__main__":
    print(check_merges("cpu") + check_attention() + check_heads_far_apart())  # noqa: T201
