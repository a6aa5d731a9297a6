"""Ours and the plain float32 pass, both judged by a float64 run of the plain one.

What float32 gives depends on the vector units, the threads and the release of a library. How far
two float32 results may be apart is therefore no constant: ours may err a few times as much as the
plain pass errs, both measured from float64, and a few units in the last place.

Code that asks for float32 by name (norms, routers, recurrent states) gets float64 inside of
`in_float64`, and `grouped_mm`, which has no float64, is written out. What Python cannot reach stays
float32: Triton kernels, whole trainers, other processes. Tests of these compare with a float64
run of what the kernel or the process computes, or keep a bound far above float32's rounding.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar
from unittest.mock import patch

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import keystr, tree_flatten, tree_flatten_with_path

T = TypeVar("T")

TIMES_PLAIN = 5  # how much further from float64 than the plain pass ours may be
ULPS = 32  # of the largest value: where the plain pass is exact by luck
ULP = torch.finfo(torch.float32).eps
# Gradients that are zero but for rounding, those of keys' biases: as this share of the largest.
SMALLEST_SHARE = 1e-3
# Beyond this the plain pass is no float32 of the same: a token went to another expert.
PLAIN_ERRS = 1e-4


def in_float64(run: Callable[..., T], *inputs: Any) -> T:
    """What `run` returns for float64 copies of tensors, dictionaries of them and models.

    `rand` and `randn` draw float32's numbers; dropout would draw others.
    """
    with _float64_for_float32():
        return run(*map(_doubled, inputs))


def judge(ours: Any, plain: Any, truth: Any, *, terms: float = 0.0) -> None:
    """Raises AssertionError where ours is further from the truth than rounding explains.

    All three are tensors in the same lists, tuples and dictionaries; truth is float64. Gradients
    of one dictionary or list are held to the largest of them.
    terms: the size of what a value is a sum of, where that may cancel.
    """
    for name, (size, far, allowed) in errors(ours, plain, truth, terms=terms).items():
        assert far <= allowed, (
            f"{name}, of {size:.3g}, is {far:.3g} off float64; {allowed:.3g} is allowed"
        )


def errors(
    ours: Any, plain: Any, truth: Any, *, terms: float = 0.0
) -> dict[str, tuple[float, float, float]]:
    """For each tensor, by norm and by largest entry: its size, our error, the error allowed."""
    paths, structure = tree_flatten_with_path(truth)
    assert tree_flatten(ours)[1] == tree_flatten(plain)[1] == structure, "other tensors than asked"
    triples = zip(tree_flatten(ours)[0], tree_flatten(plain)[0], paths, strict=True)
    judged = {}
    for mine, theirs, (path, exact) in triples:
        assert (mine is None) == (theirs is None) == (exact is None), keystr(path)
        if exact is None:
            continue
        assert exact.dtype == torch.float64, f"{keystr(path)} of the truth is {exact.dtype}"
        assert mine.shape == theirs.shape == exact.shape, keystr(path)
        beside = [x for p, x in paths if p[:-1] == path[:-1] and x is not None and x.numel()]
        for kind, measure in (("norm", _norm), ("largest", _largest)):
            least = max(terms, SMALLEST_SHARE * max(map(measure, beside), default=0.0))
            size = max(measure(exact), least)
            rounding = measure(theirs.detach().double() - exact)
            name = f"{kind} of {keystr(path) or 'the value'}"
            assert rounding <= PLAIN_ERRS * size, f"{name}: the plain pass is {rounding:.3g} away"
            allowed = TIMES_PLAIN * rounding + ULPS * ULP * size
            judged[name] = size, measure(mine.detach().double() - exact), allowed
    return judged


def _norm(x: Tensor) -> float:
    return float(x.detach().norm())


def _largest(x: Tensor) -> float:
    return float(x.detach().abs().max()) if x.numel() else 0.0


def _doubled(value: Any) -> Any:
    if isinstance(value, nn.Module):
        return copy.deepcopy(value).double()
    if isinstance(value, Tensor) and value.is_floating_point():
        return value.detach().double().requires_grad_(value.requires_grad)
    if isinstance(value, dict):
        return {name: _doubled(x) for name, x in value.items()}
    return value


@contextmanager
def _float64_for_float32() -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    engine = torch.autograd._engine_run_backward

    def run_backward(*args: Any, **options: Any) -> Any:
        # A mode is off inside of what it handles, and checkpoints compute again in backward.
        with _Float64():
            return engine(*args, **options)

    try:
        with _Float64(), patch.object(torch.autograd, "_engine_run_backward", run_backward):
            yield
    finally:
        torch.set_default_dtype(before)


class _Float64(TorchFunctionMode):
    """Every float32 that code asks for by name is float64."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in (torch.rand, torch.randn):
            return func(*args, **{**(kwargs or {}), "dtype": torch.float32}).double()
        options = {name: _wider(value) for name, value in (kwargs or {}).items()}
        return _REPLACED.get(func, func)(*map(_wider, args), **options)


def _wider(value: Any) -> Any:
    return torch.float64 if value is torch.float32 else value


def _grouped_mm(left: Tensor, right: Tensor, offs: Tensor, **_: Any) -> Tensor:
    """Rows of `left` `[T, K]`, cut at `offs` `[E]`, by the matrices of `right` `[E, K, N]`."""
    ends = offs.tolist()
    parts = [left[a:b] @ matrix for a, b, matrix in zip([0, *ends], ends, right, strict=False)]
    rest = len(left) - ends[-1]
    return torch.cat([*parts, left.new_zeros(rest, right.shape[2])])


_REPLACED: dict[Any, Callable[..., Any]] = {
    torch.Tensor.float: torch.Tensor.double,
    torch._grouped_mm: _grouped_mm,
}
