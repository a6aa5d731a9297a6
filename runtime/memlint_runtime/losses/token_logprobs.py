"""Log-probabilities of given tokens straight from the hidden states: the package's primitive.

What: `token_logprobs(hidden, weight, target)` is `log_softmax(hidden @ weight.T)` at the targets,
`[T]`, differentiable, with nothing of size T x V and no more than `workspace_bytes` beside inputs
and gradients. `token_statistics` adds what some losses need (log-sum-exp, entropy, mean logit).
Why: the logits are the largest tensor of most fine-tunes (8,192 tokens of Gemma-2: 28 GB), and
every language-modelling loss needs one number of each row.
Cost: a frozen head no more matmuls than plain, a trained one four where plain takes three; see
`statistics`. Gradients are taken only where they are wanted.

Shapes: T tokens (any leading shape is accepted), D hidden size, V vocabulary, R rank.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, cast, overload

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.autograd.function import once_differentiable

from memlint_runtime.losses.statistics import (
    gather_statistics,
    scale_kept,
    statistics_gradients,
)
from memlint_runtime.losses.tile_ops import GradientCoefficients, LogitTransform
from memlint_runtime.losses.tiles import Head, Tiling, plan_tiling

_Apply = Callable[..., tuple[Tensor | None, ...]]

_TILES_BY_DEFAULT = 32 * 2**20
_COMFORTABLE_TILES = 16 * 2**20


@dataclass(frozen=True)
class TokenStatistics:
    """Per token, in fp32: fields not asked for are None. Ignored tokens hold zeros."""

    logprob: Tensor
    logsumexp: Tensor | None = None
    entropy: Tensor | None = None
    mean_logit: Tensor | None = None


@overload
def token_logprobs(
    hidden_TD: Tensor,
    weight_VD: Tensor,
    target_T: Tensor,
    *,
    bias: Tensor | None = ...,
    softcap: float | None = ...,
    temperature: float = ...,
    logit_scale: float = ...,
    entropy: Literal[False] = ...,
    low_rank: tuple[Tensor, Tensor] | None = ...,
    workspace_bytes: int | None = ...,
) -> Tensor: ...


@overload
def token_logprobs(
    hidden_TD: Tensor,
    weight_VD: Tensor,
    target_T: Tensor,
    *,
    bias: Tensor | None = ...,
    softcap: float | None = ...,
    temperature: float = ...,
    logit_scale: float = ...,
    entropy: Literal[True],
    low_rank: tuple[Tensor, Tensor] | None = ...,
    workspace_bytes: int | None = ...,
) -> tuple[Tensor, Tensor]: ...


def token_logprobs(
    hidden_TD: Tensor,
    weight_VD: Tensor,
    target_T: Tensor,
    *,
    bias: Tensor | None = None,
    softcap: float | None = None,
    temperature: float = 1.0,
    logit_scale: float = 1.0,
    entropy: bool = False,
    low_rank: tuple[Tensor, Tensor] | None = None,
    workspace_bytes: int | None = None,
) -> Tensor | tuple[Tensor, Tensor]:
    """Log-probability `[T]` of each target, in fp32; with `entropy`, the pair with entropies.

    Args:
        hidden_TD: hidden states `[T, D]`, or `[..., D]` with targets of the same leading shape.
        weight_VD: the output head, `[V, D]`. Without `requires_grad` it costs no gradient.
        target_T: token ids. A negative one (as -100) is ignored: its results are zero, it gets
            no gradient and its logits are never computed.
        bias: `[V]`.
        softcap: logits become `softcap * tanh(logits / softcap)`, after `logit_scale`.
        temperature: divides the logits last.
        logit_scale: multiplies the raw logits.
        entropy: also return the entropy in nats of each token's distribution, differentiable.
        low_rank: `(hidden_TR, weight_VR)`, whose product is added to the raw logits: a LoRA head
            without merging it, `(scaling * hidden @ A.T, B)`.
        workspace_bytes: most memory to use beside inputs, results and gradients. By default
            32 MiB and the size of `hidden_TD`; less is slower, never wrong.

    Under autocast the head multiplies in the autocast type, tile by tile.
    Raises ValueError for shapes that do not fit, or a workspace too small for one tile.
    """
    found = token_statistics(
        hidden_TD,
        weight_VD,
        target_T,
        bias=bias,
        softcap=softcap,
        temperature=temperature,
        logit_scale=logit_scale,
        entropy=entropy,
        low_rank=low_rank,
        workspace_bytes=workspace_bytes,
    )
    return (found.logprob, found.entropy) if found.entropy is not None else found.logprob


def token_statistics(
    hidden_TD: Tensor,
    weight_VD: Tensor,
    target_T: Tensor,
    *,
    bias: Tensor | None = None,
    softcap: float | None = None,
    temperature: float = 1.0,
    logit_scale: float = 1.0,
    logsumexp: bool = False,
    entropy: bool = False,
    mean_logit: bool = False,
    low_rank: tuple[Tensor, Tensor] | None = None,
    workspace_bytes: int | None = None,
) -> TokenStatistics:
    """As `token_logprobs`, with the log-sum-exp, entropy and mean logit of each token on request.

    Differentiating any of the three recomputes the tiles for the hidden states' gradient.
    """
    _check(hidden_TD, weight_VD, target_T, bias, low_rank, softcap, temperature)
    leading = target_T.shape
    target = target_T.reshape(-1)
    hiddens = [hidden_TD.reshape(-1, hidden_TD.shape[-1])]
    weights = [weight_VD]
    if low_rank is not None:
        hiddens.append(low_rank[0].reshape(-1, low_rank[0].shape[-1]))
        weights.append(low_rank[1])
    compute_dtype = multiply_dtype(hidden_TD, weight_VD)
    if workspace_bytes is None:
        workspace_bytes = default_workspace_bytes(
            target.shape[0], sum(int(hidden.shape[1]) for hidden in hiddens), compute_dtype
        )
    differentiable = torch.is_grad_enabled()
    options = _Options(
        transform=LogitTransform(logit_scale, softcap, temperature),
        compute_dtype=compute_dtype,
        workspace_bytes=workspace_bytes,
        logsumexp=logsumexp,
        entropy=entropy,
        mean_logit=mean_logit,
        # Where only these are differentiated the kept gradient would go unused.
        keeps=tuple(
            differentiable and hidden.requires_grad and not (logsumexp or mean_logit)
            for hidden in hiddens
        ),
    )
    apply = cast("_Apply", _TokenStatistics.apply)
    logprob, *others = apply(options, target, bias, *hiddens, *weights)
    assert logprob is not None
    return TokenStatistics(
        logprob.reshape(leading), *(None if o is None else o.reshape(leading) for o in others)
    )


def default_workspace_bytes(token_count: int, hidden_size: int, dtype: torch.dtype) -> int:
    """32 MiB of tiles, and the T x D between forward and backward that saves a matmul."""
    return _TILES_BY_DEFAULT + token_count * hidden_size * dtype.itemsize


@dataclass(frozen=True)
class _Options:
    transform: LogitTransform
    compute_dtype: torch.dtype
    workspace_bytes: int
    logsumexp: bool
    entropy: bool
    mean_logit: bool
    keeps: tuple[bool, ...]


class _TokenStatistics(torch.autograd.Function):
    """(options, target, bias, *hiddens, *weights) -> logprob, logsumexp, entropy, mean logit."""

    @staticmethod
    def forward(
        ctx: Any, options: _Options, target_T: Tensor, bias: Tensor | None, *tensors: Tensor
    ) -> tuple[Tensor | None, ...]:
        rows = counted_rows(target_T)
        head = make_head(tensors, bias, options.transform, options.compute_dtype, rows)
        target = target_T if rows is None else target_T[rows]
        keeps, tiling = plan_forward(head, options.workspace_bytes, options.keeps)
        with torch.autocast(head.device.type, enabled=False):
            found, kept = gather_statistics(
                head,
                target,
                tiling,
                expected_logit=options.entropy,
                mean_logit=options.mean_logit,
                keep=keeps,
            )
        ctx.options, ctx.count = options, int(target_T.shape[0])
        # A gradient is no saved tensor: kept as an attribute, offloading hooks do not copy it.
        ctx.kept = kept
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(target, rows, bias, found.logsumexp, found.expected_logit, *tensors)
        spread = [
            found.logprob,
            found.logsumexp if options.logsumexp else None,
            None if found.expected_logit is None else found.logsumexp - found.expected_logit,
            found.mean_logit,
        ]
        return tuple(
            None if values is None else spread_rows(values, rows, ctx.count) for values in spread
        )

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *upstream: Tensor | None) -> tuple[Tensor | None, ...]:
        target, rows, bias, logsumexp, expected_logit, *tensors = ctx.saved_tensors
        options: _Options = ctx.options
        head = make_head(tuple(tensors), bias, options.transform, options.compute_dtype, rows)
        pairs = len(tensors) // 2
        wants_bias, wants = ctx.needs_input_grad[2], ctx.needs_input_grad[3:]
        by_logprob, by_logsumexp, by_entropy, by_mean = (
            by if by is None or rows is None else by[rows] for by in upstream
        )
        coefficients = _coefficients(
            head, by_logprob, by_logsumexp, by_entropy, by_mean, expected_logit
        )
        if coefficients is None:
            return (None,) * (3 + len(tensors))
        simple = by_logsumexp is None and by_entropy is None and by_mean is None
        held = sum(_bytes(kept) for kept in ctx.kept)
        tiling = plan_tiling(
            head, options.workspace_bytes - held, scratch=2 if coefficients.slope is None else 3
        )
        results = [
            blank_gradient(tensor, head) if want else None
            for tensor, want in zip(tensors, wants, strict=True)
        ]
        todo = list(results[:pairs])
        bias_result = blank_gradient(bias, head) if wants_bias else None
        # The tiles are cast by hand; autocast would round their fp32 sums as well.
        with torch.autocast(head.device.type, enabled=False):
            for pair, kept in enumerate(ctx.kept):
                result = todo[pair]
                if simple and kept is not None and result is not None:
                    assert by_logprob is not None
                    scale_kept(head, kept, by_logprob, tiling, result)
                    todo[pair] = None
            statistics_gradients(
                head, target, logsumexp, coefficients, tiling, todo, results[pairs:], bias_result
            )
        return None, None, bias_result, *results


def counted_rows(target_T: Tensor) -> Tensor | None:
    """The positions whose target is not negative, or None where all are or none can be read."""
    if isinstance(target_T, FakeTensor):
        return None
    counted = target_T >= 0
    return None if bool(counted.all()) else counted.nonzero()[:, 0]


def make_head(
    tensors: tuple[Tensor, ...],
    bias: Tensor | None,
    transform: LogitTransform,
    compute_dtype: torch.dtype,
    rows: Tensor | None,
) -> Head:
    """The head of `(*hiddens, *weights)`."""
    pairs = len(tensors) // 2
    return Head(tensors[:pairs], tensors[pairs:], bias, transform, compute_dtype, rows)


def plan_forward(
    head: Head, workspace_bytes: int, keeps: tuple[bool, ...]
) -> tuple[tuple[bool, ...], Tiling]:
    """Whether the hidden states' gradients are kept, and the tiles that fit beside them."""
    held = sum(
        head.token_count * width * hidden.element_size()
        for width, hidden, keep in zip(head.widths, head.hiddens, keeps, strict=True)
        if keep
    )
    if held and workspace_bytes - held < min(_COMFORTABLE_TILES, workspace_bytes // 2):
        held, keeps = 0, tuple(False for _ in keeps)
    return keeps, plan_tiling(head, workspace_bytes - held, scratch=2)


def _coefficients(
    head: Head,
    by_logprob: Tensor | None,
    by_logsumexp: Tensor | None,
    by_entropy: Tensor | None,
    by_mean: Tensor | None,
    expected_logit: Tensor | None,
) -> GradientCoefficients | None:
    """d logprob = onehot - p; d logsumexp = p; d entropy = -p * (z - E[z]); d mean = 1 / V."""
    parts = [
        None if by_logprob is None else -by_logprob,
        by_logsumexp,
        None if by_entropy is None or expected_logit is None else by_entropy * expected_logit,
    ]
    present = [part for part in parts if part is not None]
    if not present and by_mean is None:
        return None
    share = (
        torch.stack(present).sum(0)
        if present
        else torch.zeros(head.token_count, dtype=head.accumulate_dtype, device=head.device)
    )
    return GradientCoefficients(
        by_logprob,
        share,
        None if by_entropy is None else -by_entropy,
        None if by_mean is None else by_mean / head.vocabulary,
    )


def spread_rows(values: Tensor, rows: Tensor | None, count: int) -> Tensor:
    """Values of the head's rows in their places among `count` zeros."""
    if rows is None:
        return values
    return values.new_zeros(count).index_copy_(0, rows, values)


def blank_gradient(like: Tensor, head: Head) -> Tensor:
    """Room for a gradient of the head's sweep."""
    # Rows that are ignored get no gradient; where all are written, zeros would be wasted time.
    if head.rows is None and head.token_count:
        return torch.empty_like(like, memory_format=torch.contiguous_format)
    return torch.zeros_like(like, memory_format=torch.contiguous_format)


def _bytes(tensor: Tensor | None) -> int:
    return 0 if tensor is None else tensor.numel() * tensor.element_size()


def multiply_dtype(hidden: Tensor, weight: Tensor) -> torch.dtype:
    """The type that the head's matmul rounds its inputs to, as `nn.Linear` would."""
    kind = hidden.device.type
    if torch.is_autocast_enabled(kind) and hidden.dtype != torch.float64:
        return torch.get_autocast_dtype(kind)
    return torch.promote_types(hidden.dtype, weight.dtype)


def _check(
    hidden: Tensor,
    weight: Tensor,
    target: Tensor,
    bias: Tensor | None,
    low_rank: tuple[Tensor, Tensor] | None,
    softcap: float | None,
    temperature: float,
) -> None:
    if weight.dim() != 2 or hidden.shape[-1] != weight.shape[1]:
        raise ValueError(
            f"hidden states end in the head's width: got hidden {list(hidden.shape)} and weight "
            f"{list(weight.shape)}; weight is [vocabulary, width], as nn.Linear keeps it"
        )
    if not (hidden.is_floating_point() and weight.is_floating_point()):
        raise ValueError(
            f"hidden states and head are floating point: got {hidden.dtype} and {weight.dtype}; "
            "dequantize the head, or leave it out of quantization (llm_int8_skip_modules)"
        )
    if hidden.shape[:-1] != target.shape:
        raise ValueError(
            f"one target per hidden state: got targets {list(target.shape)} for hidden states "
            f"{list(hidden.shape)}; shift labels before the call"
        )
    if bias is not None and bias.shape != weight.shape[:1]:
        raise ValueError(f"bias is [{weight.shape[0]}], got {list(bias.shape)}")
    if low_rank is not None and (
        low_rank[0].shape[:-1] != target.shape
        or low_rank[1].shape != (weight.shape[0], low_rank[0].shape[-1])
    ):
        raise ValueError(
            f"low_rank is ([..., R], [{weight.shape[0]}, R]) over the same tokens, got "
            f"{list(low_rank[0].shape)} and {list(low_rank[1].shape)}"
        )
    if temperature <= 0 or (softcap is not None and softcap <= 0):
        raise ValueError(
            f"temperature and softcap are positive, got {temperature} and {softcap}; "
            "for no soft cap pass None"
        )
    if target.device.type == "cpu" and not isinstance(target, FakeTensor) and target.numel():
        highest = int(target.max())
        if highest >= weight.shape[0]:
            raise ValueError(
                f"targets are below the vocabulary of {weight.shape[0]}, got {highest}"
            )
