"""A loss whose gradients are made in the forward pass: three products, as many as plain takes.

What: where a token's weight in the loss is known before backward, as in a mean or a sum over
tokens, a chunk of tokens keeps its logits for as long as it takes to make their gradient over them
and to multiply that by both factors. The products are the vendor's, of whole chunks; backward
multiplies the gradients by the number that it begins with.
Cost: a chunk's logits in the head's precision, rounded as the plain loss rounds them, and the
weights' gradient from forward on. Chunks add to it in float32 where the workspace has room for such
sums or the weight is of that type, else in the weight's own type, a rounding for each of a few
chunks. A second backward through one forward makes the gradients anew, a tile at a time.
Source: Liger-Kernel's fused linear cross entropy (2024), whose chunks are smaller.

Shapes: T tokens, t those of a chunk, D hidden size, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor

from memlint_runtime.losses import cost
from memlint_runtime.losses.passes import (
    PassOptions,
    backward_pass,
    coefficients_of,
    counted_rows,
    make_head,
    spread_rows,
)
from memlint_runtime.losses.planning import input_bytes, plan_tiling
from memlint_runtime.losses.statistics import (
    blank_statistics,
    finish_rows,
    has_triton,
    tile_operations,
)
from memlint_runtime.losses.tile_ops import SoftmaxState
from memlint_runtime.losses.tiles import (
    Head,
    add_product_,
    blanks,
    spans,
    write_product,
    write_rows,
)
from memlint_runtime.losses.token_logprobs import Inputs, TokenStatistics
from memlint_runtime.single_backward import SingleBackward

# Columns of weights that are converted at once.
_CONVERTED = 32768
# Most entries of a tile on a CPU, which its cache holds.
_CACHED = 2**18
# Tokens of a chunk, and of one that leaves room for sums in float32.
_LEAST_ROWS, _LEAST_BESIDE_SUMS = 64, 1024
# Most chunks that add to a gradient in half precision: far from the 256 where a chunk's part begins
# to be lost.
_MOST_ROUNDINGS = 32

# Statistics of tokens -> each one's loss.
TokenLoss = Callable[[TokenStatistics], Tensor]


@dataclass(frozen=True)
class ChunkPlan:
    """Tokens of a chunk, columns of a product, and whether weights have sums in float32 beside.

    scratch: entries of a tile in float32, where one operation hands it to the next.
    """

    rows: int
    columns: int
    sums: bool
    scratch: int


def plan_chunks(head: Head, workspace_bytes: int, trained: Sequence[bool]) -> ChunkPlan | None:
    """The chunks that fit, or None where recomputing takes less by `cost`.

    trained: whether each of the head's weights gets a gradient.
    """
    if head.compute_dtype == torch.float16 or not any(trained) or not head.token_count:
        return None  # float16 has no range for gradients that loss scaling has not reached yet
    T = head.token_count
    columns, scratch, fixed, row = _layout(head, workspace_bytes)
    summed = _summed_bytes(head, trained)
    rows = (workspace_bytes - fixed) // row
    sums = summed > 0 and rows < T and rows - summed // row >= _LEAST_BESIDE_SUMS
    if sums:
        rows -= summed // row
    tile = cost.rates_of(head.device).tile
    rows -= rows % min(tile, max(rows, 1))  # a chunk of less than one tile stays as it is
    chunks = math.ceil(T / max(rows, 1))
    rounds = summed > 0 and not sums and chunks > 1
    if rows < min(_LEAST_ROWS, T) or (rounds and chunks > _MOST_ROUNDINGS):
        return None
    even = min(math.ceil(T / chunks / tile) * tile, rows, T)
    plan = ChunkPlan(even, columns, sums, scratch)
    return plan if _takes_less(head, plan, workspace_bytes) else None


def _summed_bytes(head: Head, trained: Sequence[bool]) -> int:
    """Of sums in the accumulation type, for weights that are not of it."""
    wide = head.accumulate_dtype
    narrow = (w for w, want in zip(head.weights, trained, strict=True) if want and w.dtype != wide)
    return sum(weight.numel() * wide.itemsize for weight in narrow)


def _layout(head: Head, workspace_bytes: int) -> tuple[int, int, int, int]:
    """Columns of a product, entries of a tile between operations, and bytes: what all chunks take
    together, and what each token of a chunk takes."""
    wide, V = head.accumulate_dtype.itemsize, head.vocabulary
    converts = any(weight.dtype != head.matmul_dtype for weight in head.weights)
    columns = min(V, _CONVERTED) if converts else V
    scratch = 0
    if not has_triton(head):
        scratch = min(_CACHED, head.token_count * V, workspace_bytes // (12 * wide))
    row = V * head.matmul_dtype.itemsize + input_bytes(head, 1, 0)
    for width, hidden in zip(head.widths, head.hiddens, strict=True):
        row += width * (hidden.element_size() + (wide if columns < V else 0))
    fixed = input_bytes(head, 0, columns) + (20 * head.token_count + 3 * scratch) * wide
    return columns, scratch, fixed, row


def _takes_less(head: Head, plan: ChunkPlan, workspace_bytes: int) -> bool:
    """True if the chunks take less than four products, a tile at a time."""
    rates, shape = cost.rates_of(head.device), (head.token_count, head.vocabulary, head.widths[0])
    scratch = 1 if has_triton(head) else 2
    try:
        forward, backward = (
            plan_tiling(head, workspace_bytes, outer, scratch=scratch)
            for outer in ("tokens", "vocabulary")
        )
    except ValueError:
        return True
    tiles = [(tiling.tokens, tiling.vocabulary) for tiling in (forward, backward)]
    wide = plan.sums or head.weights[0].dtype == torch.float32
    seconds = cost.three(rates, *shape, rows=plan.rows, sums_bytes=4 if wide else 2)
    kept = head.logit_dtype.itemsize
    return seconds < cost.four(rates, *shape, kept, forward=tiles[0], backward=tiles[1])


def summed_loss(
    given: Inputs,
    token_loss: TokenLoss,
    weights_T: Tensor | None,
    *,
    logsumexp: bool,
    mean_logit: bool,
) -> Tensor | None:
    """The sum of weighed losses, or None where gradients are not for the forward pass to make."""
    fixed = weights_T is None or not weights_T.requires_grad
    if not torch.is_grad_enabled() or not fixed or not given.is_plain or given.is_whole:
        return None
    options = PassOptions(
        given.transform, given.compute_dtype, given.workspace_bytes, logsumexp, False, mean_logit,
        True, (False,) * len(given.hiddens), True,
    )  # fmt: skip
    tensors = *given.hiddens, *given.weights
    head = make_head(tensors, given.bias, options, None)
    trained = [weight.requires_grad for weight in given.weights]
    plan = plan_chunks(head, given.workspace_bytes, trained)
    if plan is None:
        return None
    loss: Tensor = cast("Any", SummedLoss).apply(
        options, plan, token_loss, weights_T, given.target, given.bias, *tensors
    )
    return loss


class SummedLoss(SingleBackward):
    """(options, plan, token_loss, weights, target, bias, *hiddens, *weights) -> the losses' sum.

    weights: of each token, or of all alike, or None.
    """

    @staticmethod
    def forward(
        ctx: Any,
        options: PassOptions,
        plan: ChunkPlan,
        token_loss: TokenLoss,
        weights_T: Tensor | None,
        target_T: Tensor,
        bias: Tensor | None,
        *tensors: Tensor,
    ) -> Tensor:
        rows = counted_rows(target_T, int(tensors[-1].shape[0]))
        head = make_head(tensors, bias, options, rows)
        target = target_T if rows is None else target_T[rows]
        if weights_T is not None and weights_T.dim() and rows is not None:
            weights_T = weights_T[rows]
        with torch.autocast(head.device.type, enabled=False):
            chunks = _Chunks(head, target, plan, options, ctx.needs_input_grad[5:])
            loss = chunks.run(token_loss, weights_T)
        ctx.options, ctx.count = options, int(target_T.shape[0])
        # Gradients are no saved tensors: kept as an attribute, offloading hooks do not copy them.
        ctx.made = [chunks.by_bias, *chunks.by_hiddens, *chunks.by_weights]
        statistics = chunks.found.logprob, chunks.found.logsumexp, *chunks.slopes
        ctx.save_for_backward(rows, target, bias, *statistics, *tensors)
        return loss

    @staticmethod
    def backward(ctx: Any, by_loss: Tensor) -> tuple[Tensor | None, ...]:
        made, ctx.made = ctx.made, None
        if made is not None:
            for gradient in made:
                if gradient is not None:
                    gradient.mul_(by_loss)
            return None, None, None, None, None, *made
        # The first backward has given them away.
        rows, target, bias, logprob, logsumexp, *rest = ctx.saved_tensors
        by, tensors = rest[:3], rest[3:]
        upstream = [
            None if part is None else spread_rows(part * by_loss, rows, ctx.count) for part in by
        ]
        upstream.insert(2, None)
        again = backward_pass(
            ctx.options, rows, target, bias, tensors, logprob, logsumexp, None,
            [None] * (len(tensors) // 2), upstream, ctx.needs_input_grad[5:],
        )  # fmt: skip
        return None, None, None, None, None, *again


class _Chunks:
    """The gradients while chunk after chunk adds to them."""

    def __init__(
        self,
        head: Head,
        target_T: Tensor,
        plan: ChunkPlan,
        options: PassOptions,
        wants: Sequence[bool],
    ) -> None:
        pairs = len(head.weights)
        self.head, self.target, self.plan = head, target_T, plan
        self.found = blank_statistics(head, mean_logit=options.mean_logit)
        self.logsumexp = options.logsumexp
        like = self.found.logprob
        # The loss's gradients by log-probability, log-sum-exp and mean logit.
        self.slopes = [
            torch.zeros_like(like) if present else None
            for present in (True, options.logsumexp, options.mean_logit)
        ]
        bias = head.bias
        self.by_bias = torch.zeros_like(bias) if bias is not None and wants[0] else None
        self.by_hiddens = blanks(head.hiddens, wants[1 : 1 + pairs], head)
        self.by_weights = blanks(head.weights, wants[1 + pairs :], head)
        self.sums = [
            torch.empty_like(weight, dtype=head.accumulate_dtype)
            if plan.sums
            and head.token_count
            and weight is not None
            and weight.dtype != head.accumulate_dtype
            else weight
            for weight in self.by_weights
        ]

    def run(self, token_loss: TokenLoss, weights_T: Tensor | None) -> Tensor:
        """Make the gradients. Returns the loss."""
        head, like = self.head, self.found.logprob
        loss = like.new_zeros(())
        rows = min(self.plan.rows, head.token_count)
        logits = like.new_empty(rows, head.vocabulary, dtype=head.matmul_dtype)
        bias_sum = None if self.by_bias is None else like.new_zeros(head.vocabulary)
        for tokens in spans(head.token_count, max(rows, 1)):
            part = logits[: tokens.stop - tokens.start]
            hiddens = head.hidden_tiles(tokens)
            self._multiply(hiddens, part)
            self._reduce(tokens, part)
            each = weights_T if weights_T is None or not weights_T.dim() else weights_T[tokens]
            loss += self._differentiate(tokens, token_loss, each)
            self._put_gradient(tokens, part)
            if bias_sum is not None:
                bias_sum += part.sum(0, dtype=bias_sum.dtype)
            self._contract(tokens, hiddens, part)
            del hiddens
        if self.by_bias is not None and bias_sum is not None:
            self.by_bias.copy_(bias_sum)
        for weight, total in zip(self.by_weights, self.sums, strict=True):
            if weight is not None and total is not None and total is not weight:
                weight.copy_(total)
        self.sums = []
        return loss

    def _multiply(self, hiddens: Sequence[Tensor], part_tV: Tensor) -> None:
        """Raw logits."""
        for columns in spans(self.head.vocabulary, self.plan.columns):
            pairs = zip(hiddens, self.head.weight_tiles(columns), strict=True)
            for pair, (hidden, weight) in enumerate(pairs):
                multiply = add_product_ if pair else write_product
                multiply(part_tV[:, columns], hidden, weight.T)

    def _tiles(self, rows: int) -> list[slice]:
        whole = self.head.vocabulary
        return spans(whole, whole if has_triton(self.head) else max(self.plan.scratch // rows, 1))

    def _inputs(self, tokens: slice, columns: slice) -> tuple[Any, ...]:
        head = self.head
        return head.bias_tile(columns), head.transform, self.target[tokens] - columns.start

    def _raw(self, part_tv: Tensor) -> Tensor:
        """A tile for an operation, which may spoil it where it is not Triton's."""
        if has_triton(self.head):
            return part_tv
        return part_tv.to(self.head.accumulate_dtype, copy=True)

    def _reduce(self, tokens: slice, part_tV: Tensor) -> None:
        head, found = self.head, self.found
        absorb, _ = tile_operations(head)
        state = SoftmaxState.empty(
            found.logprob[tokens], weighted=False, logit_sum=found.mean_logit is not None
        )
        for columns in self._tiles(len(part_tV)):
            tile = self._raw(part_tV[:, columns])
            inputs = self._inputs(tokens, columns)
            absorb(tile, *inputs, state, numerators=False, dtype=head.matmul_dtype)
        finish_rows(state, found, tokens, head.vocabulary)

    def _differentiate(
        self, tokens: slice, token_loss: TokenLoss, weights_t: Tensor | None
    ) -> Tensor:
        """The chunk's loss; its slopes are written."""
        found = self.found
        leaves = [found.logprob, found.logsumexp if self.logsumexp else None, found.mean_logit]
        with torch.enable_grad():
            logprob, logsumexp, mean = (
                None if part is None else part[tokens].detach().requires_grad_() for part in leaves
            )
            assert logprob is not None
            statistics = TokenStatistics(logprob, found.is_top[tokens], logsumexp, None, mean)
            losses = token_loss(statistics)
            loss = (losses if weights_t is None else losses * weights_t).sum()
        wanted = [part for part in (logprob, logsumexp, mean) if part is not None]
        slopes = torch.autograd.grad(loss, wanted)
        present = (whole for whole in self.slopes if whole is not None)
        for whole, slope in zip(present, slopes, strict=True):
            whole[tokens] = slope
        return loss.detach()

    def _put_gradient(self, tokens: slice, part_tV: Tensor) -> None:
        """The loss's gradient by the raw logits, over them."""
        head = self.head
        _, gradient = tile_operations(head)
        by, by_logsumexp, by_mean = (
            None if slope is None else slope[tokens] for slope in self.slopes
        )
        coefficients = coefficients_of(head, by, by_logsumexp, None, by_mean, None)
        assert coefficients is not None
        logsumexp = self.found.logsumexp[tokens]
        for columns in self._tiles(len(part_tV)):
            view = part_tV[:, columns]
            made = gradient(
                self._raw(view),
                *self._inputs(tokens, columns),
                logsumexp,
                coefficients,
                dtype=view.dtype,
            )
            if made is not view:
                view.copy_(made)

    def _contract(self, tokens: slice, hiddens: Sequence[Tensor], part_tV: Tensor) -> None:
        """Add to the weights' gradients, and write the hidden states'."""
        head = self.head
        steps = spans(head.vocabulary, self.plan.columns)
        rows = [
            None if result is None else self._room(tokens, hidden, result, len(steps) > 1)
            for hidden, result in zip(hiddens, self.by_hiddens, strict=True)
        ]
        for columns in steps:
            gradient = part_tV[:, columns]
            for total, hidden in zip(self.sums, hiddens, strict=True):
                if total is not None:
                    put = add_product_ if tokens.start else write_product
                    put(total[columns], gradient.T, hidden)
            for row, weight in zip(rows, head.weight_tiles(columns), strict=True):
                if row is not None:
                    put = add_product_ if columns.start else write_product
                    put(row, gradient, weight)
        for row, result in zip(rows, self.by_hiddens, strict=True):
            if row is not None and result is not None and (head.rows is not None or len(steps) > 1):
                write_rows(head, result, tokens, row)

    def _room(self, tokens: slice, hidden: Tensor, result: Tensor, several: bool) -> Tensor:
        """Where the gradient of a chunk's hidden states is put together."""
        if several:
            return torch.empty_like(hidden, dtype=self.head.accumulate_dtype)
        if self.head.rows is None:
            return result[tokens]
        # The chunk's copy of the hidden states has been multiplied by then.
        return hidden if hidden.dtype == result.dtype else torch.empty_like(hidden)
