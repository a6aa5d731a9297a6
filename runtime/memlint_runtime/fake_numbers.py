"""Fakes whose whole numbers keep their values: token ids, masks and what is computed from them.

What decides how rows are laid out, as a shared prompt does, reads token ids, and fakes have none.
Ids and masks are small beside activations, so `measure_memory(fake=True)` keeps them for real, by
the constants that `FakeTensorMode` has for single numbers.
Cost: the memory and time of those operations; T x T masks of long rows are left without values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy.typing as npt
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._mode_utils import no_dispatch
from torch.utils._pytree import tree_leaves

__all__ = ["FakesWithNumbers", "numbers_of"]

_MOST_ENTRIES = 2**22


class FakesWithNumbers(FakeTensorMode):  # type: ignore[no-untyped-call]
    """A fake mode in which tensors of whole numbers on the CPU have values as well."""

    def may_turn_const(self, t: Tensor) -> bool:
        """True if the values of `t` may be kept."""
        return super().may_turn_const(t) or (not self.is_our_fake(t) and _is_small_count(t))

    def dispatch(
        self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: Any = None
    ) -> object:
        """Run `func` on fakes; for real as well where it makes whole numbers of no tensor."""
        options: Mapping[str, Any] = kwargs or {}
        made = super().dispatch(func, types, args, options)
        if not isinstance(made, FakeTensor) or made.constant is not None:
            return made
        given = any(isinstance(leaf, Tensor) for leaf in tree_leaves((args, options)))
        if given or not _is_small_count(made):
            return made
        with no_dispatch():
            real = func(*args, **options)
        return self.fake_tensor_converter.from_real_tensor(self, real, make_constant=True)


def numbers_of(tensor: Tensor) -> npt.NDArray[Any]:
    """The values of token ids or a mask. Raises ValueError for fakes that have none."""
    if isinstance(tensor, FakeTensor):
        if tensor.constant is None:
            raise ValueError(
                "what rows share is read from their token ids, and these fakes have no values: "
                "make ids and masks inside measure_memory(fake=True), on the CPU, as whole numbers"
            )
        with no_dispatch():
            return tensor.constant.numpy()
    values: npt.NDArray[Any] = tensor.cpu().numpy()
    return values


def _is_small_count(tensor: Tensor) -> bool:
    counts = not (tensor.is_floating_point() or tensor.is_complex() or tensor.is_sparse)
    return counts and tensor.device.type == "cpu" and tensor.numel() <= _MOST_ENTRIES
