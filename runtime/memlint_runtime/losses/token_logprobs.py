"""Log-probabilities of given tokens straight from the hidden states: the package's primitive.

What: `token_logprobs(hidden, weight, target)` is `log_softmax(hidden @ weight.T)` at the targets,
`[T]`, differentiable, with nothing of size T x V and no more than `workspace_bytes` beside inputs
and gradients. `token_statistics` adds what some losses need (log-sum-exp, entropy, mean logit).
Why: the logits are the largest tensor of most fine-tunes (8,192 tokens of Gemma-2: 28 GB), and
every language-modelling loss needs one number of each row.
Logits of a few MiB are computed whole, as PyTorch does: tiles would only take longer. So are those
within a transform of `torch.func`, which has to see plain operations.
Cost: a frozen head no more matmuls than plain, a trained one four where plain takes three; see
`statistics`. Gradients are taken only where they are wanted.

Shapes: T tokens (any leading shape is accepted), D hidden size, V vocabulary, R rank.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, cast, overload

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn import functional

from memlint_runtime.former_names import LOSS_NAMES, takes_former_names
from memlint_runtime.losses import planning
from memlint_runtime.losses.checks import check_targets
from memlint_runtime.losses.passes import (
    PassOptions,
    backward_pass,
    counted_rows,
    default_workspace_bytes,
    forward_pass,
    multiply_dtype,
    spread_rows,
)
from memlint_runtime.losses.remote_weights import is_remote
from memlint_runtime.losses.tile_ops import NO_PROBABILITY, LogitTransform
from memlint_runtime.single_backward import SingleBackward, within_transform

_Apply = Callable[..., tuple[Tensor | None, ...]]
# Tensors that are what they hold.
_REAL = frozenset({Tensor, nn.Parameter})


@dataclass(frozen=True)
class TokenStatistics:
    """Per token, in fp32: fields not asked for are None. Ignored tokens hold zeros.

    `is_top`: whether the target is the likeliest entry, a bool.
    """

    logprob: Tensor
    is_top: Tensor
    logsumexp: Tensor | None = None
    entropy: Tensor | None = None
    mean_logit: Tensor | None = None


@overload
def token_logprobs(
    input: Tensor, linear_weight: Tensor, target: Tensor,
    *, linear_bias: Tensor | None = ..., softcap: float | None = ..., temperature: float = ...,
    logit_scale: float = ..., entropy: Literal[False] = ...,
    low_rank: tuple[Tensor, Tensor] | None = ..., workspace_bytes: int | None = ...,
) -> Tensor: ...  # fmt: skip


@overload
def token_logprobs(
    input: Tensor, linear_weight: Tensor, target: Tensor,
    *, linear_bias: Tensor | None = ..., softcap: float | None = ..., temperature: float = ...,
    logit_scale: float = ..., entropy: Literal[True], low_rank: tuple[Tensor, Tensor] | None = ...,
    workspace_bytes: int | None = ...,
) -> tuple[Tensor, Tensor]: ...  # fmt: skip


@takes_former_names(LOSS_NAMES)
def token_logprobs(
    input: Tensor,  # noqa: A002 (torch's name)
    linear_weight: Tensor,
    target: Tensor,
    *,
    linear_bias: Tensor | None = None,
    softcap: float | None = None,
    temperature: float = 1.0,
    logit_scale: float = 1.0,
    entropy: bool = False,
    low_rank: tuple[Tensor, Tensor] | None = None,
    workspace_bytes: int | None = None,
) -> Tensor | tuple[Tensor, Tensor]:
    """Log-probability `[T]` of each target, in fp32; with `entropy`, the pair with entropies.

    Args:
        input: hidden states `[T, D]`, or `[..., D]` with targets of the same leading shape.
        linear_weight: the output head, `[V, D]`. Without `requires_grad` it costs no gradient.
        target: token ids. A negative one (as -100) is ignored: its results are zero, it gets
            no gradient and its logits are never computed.
        linear_bias: `[V]`.
        softcap: logits become `softcap * tanh(logits / softcap)`, after `logit_scale`.
        temperature: divides the logits last.
        logit_scale: multiplies the raw logits.
        entropy: also return the entropy in nats of each token's distribution, differentiable.
        low_rank: `(hidden_TR, weight_VR)`, whose product is added to the raw logits: a LoRA head
            without merging it, `(scaling * hidden @ A.T, B)`.
        workspace_bytes: most memory to use beside inputs, results and gradients. By default
            48 MiB; on CUDA in half precision half of the size of both gradients, or 256 MiB.
            Less is slower, never wrong.

    Under autocast the head multiplies in the autocast type, tile by tile.
    Raises ValueError for shapes that do not fit, targets that are no token ids, options that give
    no distribution, or a workspace too small for one tile.
    """
    plain = linear_bias is None and softcap is None and low_rank is None and not entropy
    if plain and workspace_bytes is None and temperature == 1.0 == logit_scale:
        logits = few_logits(input, linear_weight, target)
        if logits is not None and counted_rows(target, logits.shape[-1]) is None:
            chosen = logits.log_softmax(-1).gather(-1, target.reshape(-1, 1))
            return chosen.view(target.shape)
    given = read_inputs(
        input, linear_weight, target, bias=linear_bias, softcap=softcap, temperature=temperature,
        logit_scale=logit_scale, low_rank=low_rank, workspace_bytes=workspace_bytes,
    )  # fmt: skip
    found = statistics_of(given, target.shape, (False, entropy, False, True))
    return (found.logprob, found.entropy) if found.entropy is not None else found.logprob


@takes_former_names(LOSS_NAMES)
def token_statistics(
    input: Tensor,  # noqa: A002 (torch's name)
    linear_weight: Tensor,
    target: Tensor,
    *,
    linear_bias: Tensor | None = None,
    softcap: float | None = None,
    temperature: float = 1.0,
    logit_scale: float = 1.0,
    logsumexp: bool = False,
    entropy: bool = False,
    mean_logit: bool = False,
    extras_differentiable: bool = True,
    low_rank: tuple[Tensor, Tensor] | None = None,
    workspace_bytes: int | None = None,
) -> TokenStatistics:
    """As `token_logprobs`, with the log-sum-exp, entropy and mean logit of each token on request.

    Differentiating any of the three recomputes the tiles for the hidden states' gradient; as
    metrics (`extras_differentiable=False`) they cost next to nothing.
    """
    given = read_inputs(
        input, linear_weight, target, bias=linear_bias, softcap=softcap, temperature=temperature,
        logit_scale=logit_scale, low_rank=low_rank, workspace_bytes=workspace_bytes,
    )  # fmt: skip
    asked = logsumexp, entropy, mean_logit, extras_differentiable
    return statistics_of(given, target.shape, asked)


def statistics_of(
    given: Inputs,
    leading: torch.Size,
    asked: tuple[bool, bool, bool, bool],
    *,
    half_logits: bool = False,
) -> TokenStatistics:
    """As `token_statistics`, of inputs that are read; `half_logits` as in `PassOptions`."""
    if given.is_whole:
        return _whole(given, leading, *asked)
    hiddens, weights = given.hiddens, given.weights
    logsumexp, _, mean_logit, extras_differentiable = asked
    # With losses of these the kept gradient would go unused; entropies are mostly metrics.
    keeps: tuple[bool, ...] = (False,) * len(hiddens)
    if not (extras_differentiable and (logsumexp or mean_logit)):
        grown = torch.is_grad_enabled()
        keeps = tuple(grown and hidden.requires_grad for hidden in hiddens)
    head = given.transform, given.compute_dtype, given.workspace_bytes
    options = PassOptions(*head, *asked, keeps, half_logits)
    if torch.compiler.is_compiling():
        from memlint_runtime.losses.operators import compiled_statistics as apply
    else:
        apply = cast("_Apply", _TokenStatistics.apply)
    logprob, is_top, *others = apply(options, given.target, given.bias, *hiddens, *weights)
    assert logprob is not None
    assert is_top is not None
    return TokenStatistics(
        logprob.reshape(leading),
        is_top.reshape(leading),
        *(None if o is None else o.reshape(leading) for o in others),
    )


@dataclass(frozen=True)
class Inputs:
    """Checked inputs of a loss, with T flat: targets, the head's pairs, and what they go by."""

    target: Tensor
    hiddens: list[Tensor]
    weights: list[Tensor]
    bias: Tensor | None
    transform: LogitTransform
    compute_dtype: torch.dtype
    workspace_bytes: int

    @property
    def is_plain(self) -> bool:
        """True if weights are where and what they are, and no compiler looks on."""
        plain = all(type(weight) in _REAL | {FakeTensor} for weight in self.weights)
        return plain and not (torch.compiler.is_compiling() or any(map(is_remote, self.weights)))

    @property
    def is_whole(self) -> bool:
        """True if the logits of plain weights are few, or a transform of `torch.func` follows."""
        if within_transform():
            return True
        if not self.is_plain or any(isinstance(weight, FakeTensor) for weight in self.weights):
            return False
        others = (weight for weight in self.weights if weight.dtype != self.compute_dtype)
        entries = self.hiddens[0].shape[0] * self.weights[0].shape[0]
        copied = sum(weight.nbytes for weight in others)
        return planning.whole_fits(entries, self.workspace_bytes, copied_bytes=copied)

    def logits(self, rows: Tensor | None = None) -> Tensor:
        """All logits of the rows, in float32 or wider, outside autocast."""
        kind = self.target.device.type
        if torch.is_autocast_enabled(kind):
            with torch.autocast(kind, enabled=False):
                return self.logits(rows)
        dtype, bias = self.compute_dtype, self.bias
        working = torch.promote_types(dtype, torch.float32)
        picked = [hidden if rows is None else hidden[rows] for hidden in self.hiddens]
        pairs = zip(picked, self.weights, strict=True)
        raw, *more = (functional.linear(h.to(dtype), w.to(dtype)).to(working) for h, w in pairs)
        return self.transform(sum(more, raw if bias is None else raw + bias))


def read_inputs(
    hidden_TD: Tensor,
    weight_VD: Tensor,
    target_T: Tensor,
    *,
    bias: Tensor | None = None,
    softcap: float | None = None,
    temperature: float = 1.0,
    logit_scale: float = 1.0,
    low_rank: tuple[Tensor, Tensor] | None = None,
    workspace_bytes: int | None = None,
) -> Inputs:
    """Check what `token_logprobs` takes. Raises ValueError as it does."""
    _check(hidden_TD, weight_VD, target_T, bias, low_rank)
    pairs = [(hidden_TD, weight_VD), *([] if low_rank is None else [low_rank])]
    hiddens = [hidden.reshape(-1, hidden.shape[-1]) for hidden, _ in pairs]
    dtype = multiply_dtype(hidden_TD, weight_VD)
    if workspace_bytes is None:
        workspace_bytes = default_workspace_bytes(
            target_T.numel(),
            sum(int(hidden.shape[1]) for hidden in hiddens),
            dtype,
            vocabulary=int(weight_VD.shape[0]),
            device=hidden_TD.device,
        )
    transform = LogitTransform(logit_scale, softcap, temperature)
    weights = [weight for _, weight in pairs]
    return Inputs(target_T.reshape(-1), hiddens, weights, bias, transform, dtype, workspace_bytes)


def _whole(
    given: Inputs,
    leading: torch.Size,
    logsumexp: bool,
    entropy: bool,
    mean_logit: bool,
    differentiable: bool,
) -> TokenStatistics:
    """The statistics from all logits at once."""
    flat = given.target
    rows = counted_rows(flat, int(given.weights[0].shape[0]))
    place = (flat if rows is None else flat[rows]).clamp(min=0)[:, None]
    logits = given.logits(rows)
    logarithm = logits.log_softmax(-1)
    plain = logits.detach()
    is_top = plain.gather(-1, place)[:, 0] >= plain.amax(-1)
    extras: list[Tensor | None] = [None, None, None]
    with torch.set_grad_enabled(torch.is_grad_enabled() and differentiable):
        if logsumexp:
            extras[0] = logits.logsumexp(-1)
        if entropy:
            # Minus infinity, where a bias masks an entry, times zero would be NaN.
            finite = logarithm.clamp(min=-NO_PROBABILITY)
            extras[1] = -(logarithm.exp() * finite).sum(-1)
        if mean_logit:
            extras[2] = logits.mean(-1)

    def placed(values: Tensor) -> Tensor:
        if rows is None:
            values = torch.where(flat >= 0, values, 0)
        return spread_rows(values, rows, flat.shape[0]).reshape(leading)

    others = (None if extra is None else placed(extra) for extra in extras)
    return TokenStatistics(placed(logarithm.gather(-1, place)[:, 0]), placed(is_top), *others)


def few_logits(input_TD: Tensor, weight_VD: Tensor, target_T: Tensor) -> Tensor | None:
    """All logits `[T, V]`, T flat, if they are few and as plain as can be, on a CPU; else None.

    Where a loss takes 100 us, reading all that may be given takes as long again.
    """
    tensors = type(input_TD) in _REAL and type(weight_VD) in _REAL and type(target_T) is Tensor
    if not (tensors and input_TD.is_cpu and weight_VD.is_cpu and target_T.is_cpu):
        return None
    if torch.compiler.is_compiling() or within_transform() or is_remote(weight_VD):
        return None
    dtype = _dtype_of_few(
        input_TD.shape, weight_VD.shape, target_T.shape, planning.WHOLE_BYTES,
        input_TD.dtype, weight_VD.dtype, target_T.dtype,
    )  # fmt: skip
    if dtype is None or torch.is_autocast_enabled("cpu"):
        return None
    flat = input_TD if input_TD.dim() == 2 else input_TD.flatten(0, -2)
    logits = functional.linear(flat, weight_VD)
    return logits if logits.dtype == dtype else logits.to(dtype)


@functools.lru_cache(maxsize=256)
def _dtype_of_few(
    hidden: torch.Size, weight: torch.Size, target: torch.Size, most_bytes: int, *dtypes: Any
) -> torch.dtype | None:
    """The type of few logits, by the shapes and types of what they are made of; None if they are
    many or do not fit."""
    dtype, weight_dtype, target_dtype = dtypes
    fits = len(weight) == 2 and len(target) > 0 and hidden == (*target, weight[1])
    known = dtype.is_floating_point and weight_dtype == dtype and target_dtype == torch.int64
    if not (fits and known and target.numel()):
        return None
    few = planning.whole_fits(target.numel() * weight[0], most_bytes)
    return torch.promote_types(dtype, torch.float32) if few else None


class _TokenStatistics(SingleBackward):
    """(options, target, bias, *hiddens, *weights) -> logprob, is_top, logsumexp, entropy, mean."""

    @staticmethod
    def forward(
        ctx: Any, options: PassOptions, target_T: Tensor, bias: Tensor | None, *tensors: Tensor
    ) -> tuple[Tensor | None, ...]:
        rows, target, found, kept = forward_pass(options, target_T, bias, tensors)
        ctx.options = options
        # A gradient is no saved tensor: kept as an attribute, offloading hooks do not copy it.
        ctx.kept = kept
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(
            rows,
            target,
            bias,
            # The caller may change its own in place.
            found.logprob.clone(),
            found.logsumexp,
            found.expected_logit,
            *tensors,
        )
        entropy = None
        if found.expected_logit is not None:
            entropy = found.logsumexp - found.expected_logit
        logsumexp = found.logsumexp if options.logsumexp else None
        logprob, is_top, *extras = (
            None if values is None else spread_rows(values, rows, int(target_T.shape[0]))
            for values in (found.logprob, found.is_top, logsumexp, entropy, found.mean_logit)
        )
        fixed = (is_top, *(() if options.extras_differentiable else extras))
        ctx.mark_non_differentiable(*(values for values in fixed if values is not None))
        return logprob, is_top, *extras

    @staticmethod
    def backward(
        ctx: Any, by_logprob: Tensor | None, _: None, *by_extras: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        rows, target, bias, logprob, logsumexp, expected_logit, *tensors = ctx.saved_tensors
        # The first backward gives them away.
        kept, ctx.kept = ctx.kept, (None,) * len(ctx.kept)
        gradients = backward_pass(
            ctx.options,
            rows,
            target,
            bias,
            tensors,
            logprob,
            logsumexp,
            expected_logit,
            kept,
            (by_logprob, *by_extras),
            ctx.needs_input_grad[2:],
        )
        return None, None, *gradients


def _check(
    hidden: Tensor,
    weight: Tensor,
    target: Tensor,
    bias: Tensor | None,
    low_rank: tuple[Tensor, Tensor] | None,
) -> None:
    check_targets(target)
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
