"""Distillation from a teacher's whole distribution, without either model's logits.

What: per token the divergence between teacher and student: forward KL (Hinton et al. 2015),
reverse KL (Gu et al., MiniLLM, 2023) and the generalised Jensen-Shannon divergence (Agarwal et
al., GKD, 2023), `share * KL(teacher, m) + (1 - share) * KL(student, m)` with the mixture
`m = share * teacher + (1 - share) * student`. Teacher and student may differ in width, not in
vocabulary. The teacher gets no gradient.
Cost: two sweeps forward and one a gradient, each with both models' matmuls.

Shapes: T tokens (any leading shape), D hidden size (E the teacher's), V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import torch
from torch import Tensor

from memlint_runtime.losses.passes import (
    counted_rows,
    default_workspace_bytes,
    multiply_dtype,
    spread_rows,
)
from memlint_runtime.losses.planning import plan_tiling
from memlint_runtime.losses.statistics import gather_statistics
from memlint_runtime.losses.tile_ops import LogitTransform
from memlint_runtime.losses.tiles import (
    Axis,
    Head,
    Tiling,
    blanks,
    hidden_gradients,
    raw_logits,
    sweep,
    weight_gradients,
)
from memlint_runtime.single_backward import SingleBackward

Divergence = Literal["forward_kl", "reverse_kl", "jensen_shannon"]
# Buffers of one model's [t, v] that are alive together.
_SCRATCH = 4


@dataclass(frozen=True)
class OutputHead:
    """A model's output head: `weight` `[V, D]`, `bias` `[V]`, and what follows the matmul."""

    weight: Tensor
    bias: Tensor | None = None
    softcap: float | None = None
    logit_scale: float = 1.0


def distillation_loss(
    student_TD: Tensor,
    student_head: OutputHead | Tensor,
    teacher_TE: Tensor,
    teacher_head: OutputHead | Tensor,
    counted_T: Tensor | None = None,
    *,
    divergence: Divergence = "forward_kl",
    share: float = 0.5,
    temperature: float = 1.0,
    workspace_bytes: int | None = None,
) -> Tensor:
    """The divergence `[T]` of each token in nats, zero where not counted.

    Args:
        student_TD, teacher_TE: hidden states before the heads, `[T, D]` and `[T, E]`.
        student_head, teacher_head: heads, or just their weights `[V, D]` and `[V, E]`.
        counted_T: tokens to compare; all by default.
        share: of the teacher in the Jensen-Shannon mixture, between 0 and 1.
        temperature: divides both models' logits.
        workspace_bytes: most memory beside inputs and gradients; by default 96 MiB.
    """
    student = student_head if isinstance(student_head, OutputHead) else OutputHead(student_head)
    teacher = teacher_head if isinstance(teacher_head, OutputHead) else OutputHead(teacher_head)
    if student.weight.shape[0] != teacher.weight.shape[0]:
        raise ValueError(
            f"both heads share a vocabulary: got {student.weight.shape[0]} for the student and "
            f"{teacher.weight.shape[0]} for the teacher; cut the padding of the larger one"
        )
    if student_TD.shape[:-1] != teacher_TE.shape[:-1]:
        raise ValueError(
            f"both models saw the same tokens: got {list(student_TD.shape)} and "
            f"{list(teacher_TE.shape)}"
        )
    if divergence not in ("forward_kl", "reverse_kl", "jensen_shannon"):
        raise ValueError(
            f"divergence is forward_kl, reverse_kl or jensen_shannon, got {divergence!r}"
        )
    if divergence == "jensen_shannon" and not 0.0 < share < 1.0:
        raise ValueError(
            f"share lies between 0 and 1, got {share}: its ends are forward_kl and reverse_kl"
        )
    leading = student_TD.shape[:-1]
    hidden, watched = (states.reshape(-1, states.shape[-1]) for states in (student_TD, teacher_TE))
    dtype = multiply_dtype(hidden, student.weight)
    if workspace_bytes is None:
        workspace_bytes = 2 * default_workspace_bytes(
            hidden.shape[0],
            hidden.shape[1] // 2,
            dtype,
            vocabulary=int(student.weight.shape[0]),
            device=hidden.device,
        )
    options = _Options(
        LogitTransform(student.logit_scale, student.softcap, temperature),
        LogitTransform(teacher.logit_scale, teacher.softcap, temperature),
        dtype,
        multiply_dtype(watched, teacher.weight),
        divergence,
        share,
        workspace_bytes,
    )
    rows = None
    if counted_T is not None:
        rows = counted_rows(torch.where(counted_T.reshape(-1).bool(), 0, -1))
    apply = cast("Callable[..., Tensor]", _Distillation.apply)
    return apply(
        options,
        rows,
        watched.detach(),
        teacher.weight.detach(),
        None if teacher.bias is None else teacher.bias.detach(),
        student.bias,
        hidden,
        student.weight,
    ).reshape(leading)


@dataclass(frozen=True)
class _Options:
    student: LogitTransform
    teacher: LogitTransform
    student_dtype: torch.dtype
    teacher_dtype: torch.dtype
    divergence: Divergence
    share: float
    workspace_bytes: int


@dataclass(frozen=True)
class _Pair:
    """Both heads over the counted rows, with their log-sum-exps `[T]` once known."""

    student: Head
    teacher: Head
    options: _Options
    student_lse: Tensor
    teacher_lse: Tensor

    @staticmethod
    def of(options: _Options, rows: Tensor | None, tensors: tuple[Tensor | None, ...]) -> _Pair:
        watched, teacher_weight, teacher_bias, bias, hidden, weight = tensors
        assert hidden is not None
        assert weight is not None
        assert watched is not None
        assert teacher_weight is not None
        empty = hidden.new_empty(0)
        student = Head((hidden,), (weight,), bias, options.student, options.student_dtype, rows)
        teacher = Head(
            (watched,),
            (teacher_weight,),
            teacher_bias,
            options.teacher,
            options.teacher_dtype,
            rows,
        )
        return _Pair(student, teacher, options, empty, empty)

    def tiling(self, outer: Axis) -> Tiling:
        room, beside = self.options.workspace_bytes, (self.teacher,)
        scratch = _SCRATCH + self.is_biased
        return plan_tiling(self.student, room, outer, scratch=scratch, beside=beside)

    @property
    def is_biased(self) -> bool:
        return self.student.bias is not None or self.teacher.bias is not None

    def weigh_(self, values_tv: Tensor, probability_tv: Tensor) -> Tensor:
        """`values * probability`, in place; zero where the probability is zero.

        There a bias may have masked the entry, and the logarithm of its ratio is no number.
        """
        if self.is_biased:
            values_tv.masked_fill_(probability_tv == 0, 0.0)
        return values_tv.mul_(probability_tv)

    def log_ratios(
        self, raw_tv: Tensor, tokens: slice, vocabulary: slice
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Student logits, its log-probabilities, and both models' over the reference of the
        divergence: the other model, or the mixture."""
        student, logits = self.student, raw_tv
        bias = student.bias_tile(vocabulary)
        if bias is not None:
            logits += bias
        logits = student.transform.apply_(logits)
        teacher = self.teacher
        watched = raw_logits(
            teacher, teacher.hidden_tiles(tokens), teacher.weight_tiles(vocabulary)
        )
        teacher_bias = teacher.bias_tile(vocabulary)
        if teacher_bias is not None:
            watched += teacher_bias
        watched = teacher.transform.apply_(watched).to(logits.dtype)
        log_q = watched.sub_(self.teacher_lse[tokens, None])
        log_p = logits - self.student_lse[tokens, None]
        if self.options.divergence != "jensen_shannon":
            difference = log_p - log_q
            return logits, log_p, log_q, difference
        share = self.options.share
        mixture = torch.logaddexp(log_q + math.log(share), log_p + math.log1p(-share))
        return logits, log_p, log_q, mixture


class _Distillation(SingleBackward):
    """(options, rows, teacher's tensors, student's bias, hidden, weight) -> divergence `[T]`."""

    @staticmethod
    def forward(
        ctx: Any, options: _Options, rows: Tensor | None, *tensors: Tensor | None
    ) -> Tensor:
        pair = _Pair.of(options, rows, tensors)
        tiling = pair.tiling("tokens")
        with torch.autocast(pair.student.device.type, enabled=False):
            pair = _with_log_sum_exps(pair, tiling)
            value_T, excess_T = _divergences(pair, tiling)
        ctx.options = options
        ctx.save_for_backward(rows, pair.student_lse, pair.teacher_lse, excess_T, *tensors)
        hidden = pair.student.hiddens[0]
        return spread_rows(value_T, rows, int(hidden.shape[0]))

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        rows, student_lse, teacher_lse, excess_T, *tensors = ctx.saved_tensors
        pair = _Pair.of(ctx.options, rows, tuple(tensors))
        pair = _Pair(pair.student, pair.teacher, ctx.options, student_lse, teacher_lse)
        by_T = upstream if rows is None else upstream[rows]
        head = pair.student

        def gradient(
            hiddens: Sequence[Tensor], weights: Sequence[Tensor], tokens: slice, vocabulary: slice
        ) -> Tensor:
            raw_tv = raw_logits(head, hiddens, weights)
            by, excess = by_T[tokens, None], excess_T[tokens, None]
            logits, log_p, log_q, against = pair.log_ratios(raw_tv, tokens, vocabulary)
            if pair.options.divergence == "forward_kl":
                del against
                result = log_p.exp_().sub_(log_q.exp_()).mul_(by)
            elif pair.options.divergence == "reverse_kl":
                result = pair.weigh_(against.sub_(excess), log_p.exp_()).mul_(by)
            else:
                against = against.neg_().add_(log_p).sub_(excess)
                result = pair.weigh_(against, log_p.exp_()).mul_(by * (1.0 - pair.options.share))
            return head.transform.chain_(result, logits)

        *_, wants_bias, wants_hidden, wants_weight = ctx.needs_input_grad
        bias, hidden, weight = tensors[3:]
        wants = wants_bias, wants_hidden, wants_weight
        results = blanks((bias, hidden, weight), wants, head)
        with torch.autocast(head.device.type, enabled=False):
            if wants_hidden:
                hidden_gradients(head, pair.tiling("tokens"), gradient, results[1:2])
            if wants_weight or wants_bias:
                weight_gradients(head, pair.tiling("vocabulary"), gradient, results[2:], results[0])
        return None, None, None, None, None, *results


def _with_log_sum_exps(pair: _Pair, tiling: Tiling) -> _Pair:
    found = []
    for head in (pair.student, pair.teacher):
        any_target = torch.zeros(head.token_count, dtype=torch.long, device=head.device)
        found.append(gather_statistics(head, any_target, tiling)[0].logsumexp)
    return _Pair(pair.student, pair.teacher, pair.options, *found)


def _divergences(pair: _Pair, tiling: Tiling) -> tuple[Tensor, Tensor]:
    """The divergence `[T]`, and the student's own part, KL(student, reference) `[T]`."""
    head = pair.student
    value_T = torch.zeros(head.token_count, dtype=head.accumulate_dtype, device=head.device)
    excess_T = torch.zeros_like(value_T)
    hiddens: list[Tensor] = []
    for visit in sweep(head.token_count, head.vocabulary, tiling):
        if visit.first:
            hiddens = head.hidden_tiles(visit.tokens)
        raw_tv = raw_logits(head, hiddens, head.weight_tiles(visit.vocabulary))
        _, log_p, log_q, against = pair.log_ratios(raw_tv, visit.tokens, visit.vocabulary)
        if pair.options.divergence == "forward_kl":
            value_T[visit.tokens] -= pair.weigh_(against, log_q.exp_()).sum(1)
        elif pair.options.divergence == "reverse_kl":
            value_T[visit.tokens] += pair.weigh_(against, log_p.exp_()).sum(1)
        else:
            share = pair.options.share
            taught = pair.weigh_(log_q - against, log_q.exp_()).sum(1)
            own = pair.weigh_(against.neg_().add_(log_p), log_p.exp_()).sum(1)
            value_T[visit.tokens] += share * taught + (1.0 - share) * own
            excess_T[visit.tokens] += own
        del raw_tv, log_p, log_q, against
    if pair.options.divergence == "reverse_kl":
        excess_T = value_T
    return value_T, excess_T
