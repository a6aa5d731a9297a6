"""Lets modules of fake tensors change their type: `model.half()`, `model.to(torch.bfloat16)`.

`nn.Module` converts fake parameters by swapping tensors, and torch swaps no tensor that is weakly
referenced. The fake mode itself references every fake so, and each conversion fails ("Couldn't
swap"). Those references are by identity, which a swap keeps, so that for two fakes the check is
needless. What else torch checks guards graphs that are run; fakes only count.

Cost: while the context is open `torch.utils.swap_tensors` is another function, on all threads.
Other tensors than fakes still go through torch's.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

__all__ = ["convertible_fakes"]


@contextmanager
def convertible_fakes() -> Iterator[None]:
    """Within it modules of fakes convert, and the hooks on their gradients stay."""
    theirs: Any = torch.utils.swap_tensors

    def swap(kept: Any, given: Any) -> None:
        if not (isinstance(kept, FakeTensor) and isinstance(given, FakeTensor)):
            theirs(kept, given)
            return
        hooks = kept._post_accumulate_grad_hooks
        kept.__class__, given.__class__ = given.__class__, kept.__class__
        kept.__dict__, given.__dict__ = given.__dict__, kept.__dict__
        torch._C._swap_tensor_impl(kept, given)
        # They hang on the content that went; setting them anew hangs them on the one that came.
        kept._post_accumulate_grad_hooks = hooks

    torch.utils.swap_tensors = swap
    try:
        yield
    finally:
        torch.utils.swap_tensors = theirs
