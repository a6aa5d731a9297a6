"""Does a layer that is continued from a state give what it gives in one piece?

Rows that share their beginning go through the layer whole, and as a prefix with its branches;
outputs and the gradient of its inputs must agree. Kernels that take a state and give it no gradient
would train wrongly without a word: such a layer is then read from each row's first token on, and
tried again.

R rows, S columns of which the first P are the same in all rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from memlint_runtime.integrations.modes import tolerated
from memlint_runtime.recurrent.running import RowSegments, SegmentedForward
from memlint_runtime.recurrent.segments import Node, tree_plan

__all__ = ["reason_of_trial"]


def reason_of_trial(layers: Sequence[nn.Module], inputs_RSD: Tensor, prefix: int) -> str | None:
    """How watched layers' outputs or gradients differ when they are run in parts; None if not.

    layers: all of one kind; the first is tried. inputs_RSD: what goes into it, rows that share
    their first `prefix` tokens. Its parameters have to be there whole.
    """
    forwards: list[SegmentedForward] = [vars(layer)["forward"] for layer in layers]
    difference = _difference(forwards[0], inputs_RSD, prefix)
    if difference is not None and forwards[0].continued:
        for forward in forwards:
            forward.continued = False
        difference = _difference(forwards[0], inputs_RSD, prefix)
    if difference is None:
        return None
    return (
        f"the {difference} of its {type(layers[0]).__name__} layers differ when rows share their "
        "beginning"
    )


def _difference(forward: SegmentedForward, rows: Tensor, prefix: int) -> str | None:
    def packed(x_RSD: Tensor) -> Tensor:
        return torch.cat([x_RSD[0, :prefix], *x_RSD[:, prefix:]])

    branch = rows.shape[1] - prefix
    ends = [prefix + branch * i for i in range(len(rows) + 1)]
    nodes = [
        Node(0, prefix, ends[-1], 0),
        *(Node(a, a + branch, a + branch, 1) for a in ends[:-1]),
    ]
    segments = RowSegments(lambda continued: tree_plan(nodes, continues=continued))
    with torch.enable_grad(), torch.autocast(rows.device.type, enabled=False):
        whole = rows.detach().clone().requires_grad_()
        wanted = forward.plainly(hidden_states=whole)
        weights = torch.linspace(-1.0, 1.0, wanted.numel(), device=rows.device).view_as(wanted)
        weights = weights.to(wanted.dtype)
        # A shared token's output counts once: in the first row.
        once = weights.clone()
        once[1:, :prefix] = 0
        (grad,) = torch.autograd.grad((wanted * once).sum(), whole)
        parts = packed(rows.detach())[None].requires_grad_()
        found = forward.over(parts, segments)
        (found_grad,) = torch.autograd.grad((found[0] * packed(weights)).sum(), parts)
    wanted_grad = torch.cat([grad[:, :prefix].sum(0), *grad[:, prefix:]])
    shared = wanted[:, :prefix]
    compared = [
        ("outputs", shared[:1].expand_as(shared), shared),  # what comes later must not be seen
        ("outputs", found[0], packed(wanted)),
        ("gradients", found_grad[0], wanted_grad),
    ]
    for name, a, b in compared:
        share = float((a.float() - b.float()).norm() / b.float().norm().clamp(min=1e-9))
        if not share <= tolerated(rows.dtype):
            return name
    return None
