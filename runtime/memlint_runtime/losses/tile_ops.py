"""What happens to one tile of logits between its matmuls, in plain PyTorch.

What: `absorb_tile` folds a tile of raw logits into running softmax statistics, `tile_gradient`
turns it into the gradient of a per-token loss. Both spoil the tile that they are given, so that no
more buffers than `planning.plan_tiling` counts are alive. The Triton kernels of `triton_ops` do the
same in one pass each.

Shapes: t tokens and v vocabulary entries of a tile.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

# Nats below the largest logit at which the exponential is zero, also in double precision.
NO_PROBABILITY = 1000.0


@dataclass(frozen=True)
class LogitTransform:
    """What follows the head's matmul: `temperature**-1 * softcap * tanh(scale * raw / softcap)`."""

    scale: float = 1.0
    softcap: float | None = None
    temperature: float = 1.0

    def __post_init__(self) -> None:
        """Raise ValueError for what would make every logit NaN, or turn the order around."""
        capped = self.softcap is None or 0.0 < self.softcap < math.inf
        if not (capped and self.temperature > 0.0):
            raise ValueError(
                f"temperature and softcap are positive, got {self.temperature} and {self.softcap}; "
                "for no soft cap pass None"
            )
        if not -math.inf < self.scale < math.inf:
            raise ValueError(f"logit_scale is a finite number, got {self.scale}; 1.0 is without")

    @property
    def factor(self) -> float:
        """The derivative at zero, and everywhere without a soft cap."""
        return self.scale / self.temperature

    def __call__(self, raw: Tensor) -> Tensor:
        """Logits of raw logits, differentiable."""
        if self.softcap is None:
            return raw if self.factor == 1.0 else raw * self.factor
        capped = torch.tanh(raw * (self.scale / self.softcap))
        return capped * (self.softcap / self.temperature)

    def apply_(self, raw_tv: Tensor) -> Tensor:
        """Turn raw logits into logits, in place."""
        if self.softcap is None:
            return raw_tv if self.factor == 1.0 else raw_tv.mul_(self.factor)
        raw_tv.mul_(self.scale / self.softcap).tanh_()
        return raw_tv.mul_(self.softcap / self.temperature)

    def slope(self, logits: Tensor) -> Tensor:
        """The derivative of the logits by the raw logits, given the logits."""
        if self.softcap is None:
            return torch.full_like(logits, self.factor)
        return (1.0 - (logits * (self.temperature / self.softcap)).square()) * self.factor

    def chain_(self, gradient_tv: Tensor, logits_tv: Tensor) -> Tensor:
        """Carry a gradient by the logits over to the raw logits, in place. Spoils `logits_tv`."""
        if self.softcap is None:
            return gradient_tv if self.factor == 1.0 else gradient_tv.mul_(self.factor)
        tanh_tv = logits_tv.mul_(self.temperature / self.softcap)
        return gradient_tv.mul_(tanh_tv.square_().neg_().add_(1.0).mul_(self.factor))


@dataclass
class SoftmaxState:
    """Running sums `[t]` over the vocabulary seen so far; the target's entry is kept apart.

    `others` is the sum of exp(logit - maximum), `weighted` of exp(logit - maximum) * logit,
    `logit_sum` of all logits, the target's included. The last two only where asked for.
    """

    maximum: Tensor
    others: Tensor
    target: Tensor
    weighted: Tensor | None
    logit_sum: Tensor | None

    @staticmethod
    def empty(like_t: Tensor, *, weighted: bool, logit_sum: bool) -> SoftmaxState:
        return SoftmaxState(
            torch.full_like(like_t, -torch.inf),
            torch.zeros_like(like_t),
            torch.full_like(like_t, -torch.inf),
            torch.zeros_like(like_t) if weighted else None,
            torch.zeros_like(like_t) if logit_sum else None,
        )


@dataclass(frozen=True)
class GradientCoefficients:
    """A per-token loss's gradient by the logits: `onehot * target + p * (share + slope * z) + all`.

    Each `[T]` or None for zero; p is the softmax, z the logit.
    """

    target: Tensor | None
    share: Tensor
    slope: Tensor | None
    everywhere: Tensor | None

    @property
    def parts(self) -> tuple[Tensor | None, Tensor, Tensor | None, Tensor | None]:
        return self.target, self.share, self.slope, self.everywhere

    def part(self, tokens: slice) -> GradientCoefficients:
        parts: Any = (None if one is None else one[tokens] for one in self.parts)
        return GradientCoefficients(*parts)


def absorb_tile(
    raw_tv: Tensor,
    bias_v: Tensor | None,
    transform: LogitTransform,
    column_t: Tensor,
    state: SoftmaxState,
    *,
    numerators: bool,
    dtype: torch.dtype,
) -> tuple[Tensor | None, Tensor]:
    """Fold a tile into `state`; `column_t` is the target's place in the tile, or outside it.

    Returns, with `numerators`, `exp(z - maximum) * dz/draw` `[t, v]` in `dtype` with zero at the
    target, and the factor `[t]` by which sums made under the former maximum shrink.
    """
    if bias_v is not None:
        raw_tv += bias_v
    logits = transform.apply_(raw_tv)
    inside, place = _locate(column_t, logits.shape[1])
    there = logits.gather(1, place)[:, 0]
    state.target = torch.where(inside, there, state.target)
    if state.logit_sum is not None:
        state.logit_sum += logits.sum(1)
    logits.scatter_(1, place, torch.where(inside, -torch.inf, there)[:, None])
    lowest = torch.finfo(logits.dtype).min
    maximum = torch.maximum(state.maximum, logits.amax(1)).clamp_min_(lowest)
    rescale = (state.maximum - maximum).exp_()
    state.maximum = maximum
    needs_logits = state.weighted is not None or (numerators and transform.softcap is not None)
    exponentials = torch.sub(logits, maximum[:, None], out=None if needs_logits else logits).exp_()
    state.others = state.others * rescale + exponentials.sum(1)
    if needs_logits:
        # Minus infinity at the target has done its work; times zero it would be NaN.
        logits.scatter_(1, place, torch.where(inside, 0.0, there)[:, None])
    if state.weighted is not None:
        _bound_masked_(logits, bias_v, maximum)
        product = torch.bmm(exponentials[:, None, :], logits[:, :, None])[:, 0, 0]
        state.weighted = state.weighted * rescale + product
    if not numerators:
        return None, rescale
    return transform.chain_(exponentials, logits).to(dtype), rescale


def tile_gradient(
    raw_tv: Tensor,
    bias_v: Tensor | None,
    transform: LogitTransform,
    column_t: Tensor,
    logsumexp_t: Tensor,
    coefficients: GradientCoefficients,
    *,
    dtype: torch.dtype,
) -> Tensor:
    """The gradient `[t, v]` in `dtype` by a tile of raw logits, of what `coefficients` describe."""
    if bias_v is not None:
        raw_tv += bias_v
    logits = transform.apply_(raw_tv)
    gradient = (logits - logsumexp_t[:, None]).exp_()
    if coefficients.slope is None:
        gradient *= coefficients.share[:, None]
    else:
        _bound_masked_(logits, bias_v, logsumexp_t)
        gradient *= (logits * coefficients.slope[:, None]).add_(coefficients.share[:, None])
    if coefficients.everywhere is not None:
        gradient += coefficients.everywhere[:, None]
    if coefficients.target is not None:
        inside, place = _locate(column_t, logits.shape[1])
        gradient.scatter_add_(1, place, torch.where(inside, coefficients.target, 0.0)[:, None])
    return transform.chain_(gradient, logits).to(dtype)


def _bound_masked_(logits_tv: Tensor, bias_v: Tensor | None, highest_t: Tensor) -> None:
    """Make logits of probability zero finite, in place: minus infinity times zero would be NaN.

    Such logits come from a bias that masks entries. A soft cap is finite already.
    """
    if bias_v is not None:
        torch.maximum(logits_tv, (highest_t - NO_PROBABILITY)[:, None], out=logits_tv)


def _locate(column_t: Tensor, width: int) -> tuple[Tensor, Tensor]:
    inside = (column_t >= 0) & (column_t < width)
    return inside, column_t.clamp(0, width - 1)[:, None]
