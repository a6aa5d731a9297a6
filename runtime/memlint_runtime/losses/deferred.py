"""Logits that are computed only as far as they are used.

What: `defer_logits(model)` makes the output head return `DeferredLogits`: hidden states, head, and
what was done to them since (slices, scales, soft caps, reshapes). Log-softmax, cross entropy and
log-sum-exp over them run tile by tile; any other operation first computes the logits for real, so
nothing breaks, it only saves nothing. Generation gets real logits.
Why: trainers that ask a model for logits and then gather log-probabilities need not be rewritten.
Cost: the objects are no tensors, so code that checks `isinstance(logits, torch.Tensor)` differs.

Shapes: leading `[...]` (usually B, L), D hidden size, V vocabulary.
"""

from __future__ import annotations

import math
import operator
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from memlint_runtime.integrations import Patch, unwrap
from memlint_runtime.integrations.patching import bound_to
from memlint_runtime.losses.causal_lm import find_head
from memlint_runtime.losses.checks import check_targets, check_workspace
from memlint_runtime.losses.cross_entropy import cross_entropy
from memlint_runtime.losses.output_head import (
    PATCH_MARK,
    HeadTensors,
    check_head,
    forward_place,
    read_head,
)
from memlint_runtime.losses.tile_ops import LogitTransform
from memlint_runtime.losses.token_logprobs import TokenStatistics, token_statistics

# On a model and its head while logits are deferred.
_MARK = "memlint_deferred"


def _computed(operate: Callable[[Any, Any], Any], *, reflected: bool = False) -> Any:
    """An operator of deferred logits that computes them for real."""

    def method(self: DeferredLogits, other: Any) -> Any:
        logits, other = self.materialize(), real(other)
        return operate(other, logits) if reflected else operate(logits, other)

    return method


@dataclass(eq=False)
class DeferredLogits:
    """Stands for `transform(hidden @ weight.T)`, `[..., V]`.

    Of dataclass type so that DDP finds `hidden`, and through it the graph, in a model's outputs.
    """

    hidden: Tensor
    head: HeadTensors = field(repr=False)
    transform: LogitTransform = field(default_factory=LogitTransform)
    dtype: torch.dtype = torch.float32
    workspace_bytes: int | None = None

    # -- what a tensor would say of itself ---------------------------------------------------

    @property
    def shape(self) -> torch.Size:
        return torch.Size((*self.hidden.shape[:-1], self.head.weight.shape[0]))

    @property
    def ndim(self) -> int:
        return self.hidden.ndim

    @property
    def device(self) -> torch.device:
        return self.hidden.device

    @property
    def requires_grad(self) -> bool:
        return self.hidden.requires_grad or self.head.weight.requires_grad

    def dim(self) -> int:
        return self.ndim

    def size(self, dim: int | None = None) -> Any:
        return self.shape if dim is None else self.shape[dim]

    def __len__(self) -> int:
        return int(self.shape[0])

    # -- what stays deferred -----------------------------------------------------------------

    def __getitem__(self, index: Any) -> Any:
        if self._leaves_vocabulary(index):
            return replace(self, hidden=self.hidden[index])
        match index:
            case (*others, slice(start=None, stop=int(words), step=None)) if (
                0 < words <= self.shape[-1]
                and self.head.low_rank is None
                and self._leaves_vocabulary(whole := (*others, slice(None)))
            ):  # the padding of a vocabulary is cut off
                return replace(self, head=self.head.first(words))[whole]
        return self.materialize()[index]

    def _leaves_vocabulary(self, index: Any) -> bool:
        parts = index if isinstance(index, tuple) else (index,)
        taken = 0
        for part in parts:
            if part is None:
                continue
            mask = isinstance(part, Tensor) and part.dtype == torch.bool
            taken += 0 if part is Ellipsis else part.ndim if mask else 1
        if (
            taken < self.ndim
            and parts[-1] is not Ellipsis
            and any(part is Ellipsis for part in parts)
        ):
            taken = self.ndim  # what follows the ellipsis counts from the end
        elif taken < self.ndim:
            return True
        last = parts[-1]
        return isinstance(last, slice) and last == slice(None)

    def __iter__(self) -> Iterator[DeferredLogits]:
        return (replace(self, hidden=row) for row in self.hidden)

    def __truediv__(self, divisor: Any) -> Any:
        if isinstance(divisor, (int, float)) and divisor != 0:
            return self * (1.0 / divisor)
        return self.materialize() / real(divisor)

    def __mul__(self, factor: Any) -> Any:
        if not isinstance(factor, (int, float)) or not 0 < factor < math.inf:
            return self.materialize() * real(factor)
        if self.transform.softcap is None:
            changed = replace(self.transform, scale=self.transform.scale * factor)
        else:
            changed = replace(self.transform, temperature=self.transform.temperature / factor)
        return replace(self, transform=changed)

    __rmul__ = __mul__

    def tanh(self) -> Any:
        if self.transform.softcap is not None:
            return self.materialize().tanh()
        return replace(self, transform=replace(self.transform, softcap=1.0))

    def float(self) -> DeferredLogits:
        return replace(self, dtype=torch.float32)

    def to(self, *args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and isinstance(args[0], torch.dtype) and not kwargs:
            return replace(self, dtype=args[0])
        if len(args) == 1 and args[0] == self.device and not kwargs:
            return self
        return self.materialize().to(*args, **kwargs)

    def contiguous(self) -> DeferredLogits:
        return self

    def detach(self) -> DeferredLogits:
        head = replace(
            self.head,
            weight=self.head.weight.detach(),
            bias=None if self.head.bias is None else self.head.bias.detach(),
        )
        return replace(self, hidden=self.hidden.detach(), head=head)

    def reshape(self, *shape: Any) -> Any:
        sizes = tuple(shape[0]) if len(shape) == 1 and not isinstance(shape[0], int) else shape
        if sizes[-1] not in (self.shape[-1], -1) or (sizes[-1] == -1 and len(sizes) != self.ndim):
            return self.materialize().reshape(sizes)
        return replace(self, hidden=self.hidden.reshape(*sizes[:-1], self.hidden.shape[-1]))

    view = reshape

    # -- what is computed tile by tile -------------------------------------------------------

    def statistics(self, target: Tensor, **options: Any) -> TokenStatistics:
        """As `token_statistics` of these logits; a target of -100 is ignored."""
        return token_statistics(
            self.hidden,
            self.head.weight,
            target,
            softcap=self.transform.softcap,
            temperature=self.transform.temperature,
            logit_scale=self.transform.scale,
            workspace_bytes=self.workspace_bytes,
            **self.head.options(self.hidden),
            **options,
        )

    def statistic(self, name: str) -> Tensor:
        """One of the token statistics that no target decides."""
        anything = torch.zeros(self.shape[:-1], dtype=torch.long, device=self.device)
        found: Tensor = getattr(self.statistics(anything, **{name: True}), name)
        return found

    def mean(self, *dims: Any, **options: Any) -> Tensor:
        """The mean of all logits, as trainers log it: a metric, without gradient."""
        if dims or options:
            return self.materialize().mean(*dims, **options)
        with torch.no_grad():
            if self.transform.softcap is None and self.head.low_rank is None:
                # Linear: the mean hidden state's product with the mean of the head's rows.
                states = self.hidden.flatten(0, -2).mean(0, dtype=torch.float32)
                entries = self.head.weight.mean(0, dtype=torch.float32)
                mean = states @ entries.to(states.device)
                if self.head.bias is not None:
                    mean = mean + self.head.bias.float().mean()
                return mean * self.transform.factor
            return self.statistic("mean_logit").mean()

    def log_softmax(self, dim: int = -1, dtype: Any = None) -> Any:
        if dim not in (-1, self.ndim - 1):
            return self.materialize().log_softmax(dim)
        return DeferredLogProbs(self)

    def logsumexp(self, dim: int = -1) -> Tensor:
        return self.statistic("logsumexp")

    def materialize(self) -> Tensor:
        """The logits themselves."""
        options = self.head.options(self.hidden)
        weight = self.head.weight.to(self.hidden.device)
        logits = functional.linear(self.hidden, weight, options["linear_bias"])
        if options["low_rank"] is not None:
            left, right = options["low_rank"]
            logits = logits + functional.linear(left, right.to(left.dtype)).to(logits.dtype)
        return self.transform(logits).to(self.dtype)

    __add__ = __radd__ = _computed(operator.add)
    __sub__ = _computed(operator.sub)
    __rsub__ = _computed(operator.sub, reflected=True)
    __rtruediv__ = _computed(operator.truediv, reflected=True)
    __pow__ = _computed(operator.pow)
    __rpow__ = _computed(operator.pow, reflected=True)
    __floordiv__ = _computed(operator.floordiv)
    __rfloordiv__ = _computed(operator.floordiv, reflected=True)
    __mod__ = _computed(operator.mod)
    __rmod__ = _computed(operator.mod, reflected=True)
    __matmul__ = _computed(operator.matmul)
    __lt__, __le__ = _computed(operator.lt), _computed(operator.le)
    __gt__, __ge__ = _computed(operator.gt), _computed(operator.ge)

    def __setitem__(self, index: Any, value: Any) -> None:
        raise NotImplementedError(
            "deferred logits cannot be assigned to: use the form that returns another tensor "
            "(torch.where, masked_fill), or materialize() them first"
        )

    def __neg__(self) -> Any:
        return -self.materialize()

    def __abs__(self) -> Any:
        return self.materialize().abs()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name.endswith("_"):
            raise AttributeError(
                f"deferred logits cannot be changed in place by {name}: use the form that returns "
                "a new tensor"
            )
        return getattr(self.materialize(), name)

    @classmethod
    def __torch_function__(
        cls, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        handler = _HANDLERS.get(function)
        if handler is not None and isinstance(args[0], DeferredLogits):
            result = handler(*args, **kwargs)
            if result is not NotImplemented:
                return result
        return function(*map(real, args), **{name: real(value) for name, value in kwargs.items()})


@dataclass(eq=False)
class DeferredLogProbs:
    """Log-softmax of deferred logits, of which only gathered entries are computed."""

    logits: DeferredLogits

    @property
    def shape(self) -> torch.Size:
        return self.logits.shape

    def __getitem__(self, index: Any) -> Any:
        part = self.logits[index]
        return (
            part.log_softmax(-1) if isinstance(part, DeferredLogits) else self.materialize()[index]
        )

    def gather(self, dim: int, index: Tensor) -> Any:
        if dim not in (-1, self.logits.ndim - 1) or index.shape[-1] != 1:
            return self.materialize().gather(dim, index)
        return self.logits.statistics(index[..., 0]).logprob[..., None]

    def materialize(self) -> Tensor:
        return self.logits.materialize().log_softmax(-1)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.materialize(), name)

    @classmethod
    def __torch_function__(
        cls, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if function in (torch.gather, Tensor.gather) and isinstance(args[0], DeferredLogProbs):
            return args[0].gather(*args[1:], **(kwargs or {}))
        named = {name: real(value) for name, value in (kwargs or {}).items()}
        return function(*map(real, args), **named)


def real(value: Any) -> Any:
    """A value with deferred logits in it computed."""
    if isinstance(value, (DeferredLogits, DeferredLogProbs)):
        return value.materialize()
    if isinstance(value, (list, tuple)):
        return type(value)(map(real, value))
    return value


def _cross_entropy(
    logits: DeferredLogits,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: Any = None,
    ignore_index: int = -100,
    reduce: Any = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Any:
    if weight is not None or target.is_floating_point() or target.ndim != 1:
        return NotImplemented
    return cross_entropy(
        logits.hidden,
        logits.head.weight,
        target,
        label_smoothing=label_smoothing,
        ignore_index=ignore_index,
        reduction=reduction,  # type: ignore[arg-type]
        softcap=logits.transform.softcap,
        temperature=logits.transform.temperature,
        logit_scale=logits.transform.scale,
        workspace_bytes=logits.workspace_bytes,
        **logits.head.options(logits.hidden),
    )


_HANDLERS: dict[Any, Callable[..., Any]] = {
    functional.cross_entropy: _cross_entropy,
    functional.log_softmax: lambda logits, dim=-1, **_: logits.log_softmax(dim),
    torch.log_softmax: lambda logits, dim=-1, **_: logits.log_softmax(dim),
    torch.logsumexp: lambda logits, dim=-1, **_: logits.logsumexp(dim),
    torch.tanh: lambda logits: logits.tanh(),
}


class DeferredHead(Patch):
    """Undoes `defer_logits` by `undo()`, or at the end of a `with` block."""

    def __init__(self, causal: Any, workspace_bytes: int | None = None) -> None:
        super().__init__(causal, "the model's logits are deferred")
        self.workspace_bytes = workspace_bytes
        self.generating = 0


def defer_logits(model: nn.Module, *, workspace_bytes: int | None = None) -> DeferredHead:
    """Make a transformers causal LM return `DeferredLogits`, outside `generate`, until undone.

    Where it does so already, with the same workspace, the handle undoes nothing.
    """
    check_workspace(workspace_bytes)
    causal = unwrap(model)
    earlier = deferred_logits_of(causal)
    if earlier is not None:
        if earlier.workspace_bytes != workspace_bytes:
            raise ValueError(
                f"the model's logits are deferred already, with workspace_bytes="
                f"{earlier.workspace_bytes}: undo() that first"
            )
        return DeferredHead(causal, workspace_bytes)
    head: Any = find_head(causal)
    place = forward_place(head)
    deferred = DeferredHead(causal, workspace_bytes)
    forward = bound_to(head, place, _deferring)
    setattr(forward.__func__, PATCH_MARK, True)
    deferred.replace(head, place, forward)
    deferred.replace(causal, "generate", bound_to(causal, "generate", _generating_with_logits))
    deferred.replace(causal, _MARK, deferred)
    # On the head as well: whoever copies only that is stopped.
    deferred.replace(head, _MARK, deferred)
    return deferred


def head_logits(
    head: nn.Module, hidden: Tensor, *, workspace_bytes: int | None = None
) -> DeferredLogits | Tensor:
    """`head(hidden)`, computed as far as it is read: for the forward pass of a model of your own.

    The logits themselves where autograd records nothing (so that evaluation and sampling may change
    them in place), in compiled code, and for a head that is no plain linear layer, with a warning.

    Args:
        head: `nn.Linear` `D -> V`.
        hidden: `[..., D]`.
        workspace_bytes: as in `token_logprobs`.
    """
    check_workspace(workspace_bytes)
    sharded = any(hasattr(parameter, "ds_id") for parameter in head.parameters())
    whole = torch.compiler.is_compiling() or not torch.is_grad_enabled() or sharded
    if not whole:
        try:
            check_head(head)
        except ValueError as error:
            whole = True
            warnings.warn(f"the logits are computed whole: {error}", stacklevel=2)
    logits: Tensor | DeferredLogits = (
        head(hidden) if whole else _of_head(head, hidden, workspace_bytes)
    )
    return logits


def _of_head(head: Any, hidden: Tensor, workspace_bytes: int | None) -> DeferredLogits:
    autocast = torch.is_autocast_enabled(hidden.device.type)
    dtype = torch.get_autocast_dtype(hidden.device.type) if autocast else hidden.dtype
    return DeferredLogits(hidden, read_head(head), dtype=dtype, workspace_bytes=workspace_bytes)


def deferred_logits_of(model: Any) -> DeferredHead | None:
    """The handle by which a model's logits are deferred, if they are."""
    found: DeferredHead | None = vars(model).get(_MARK)
    return found


def _deferring(own: Callable[..., Any]) -> Callable[..., Any]:
    def forward(self: Any, hidden: Tensor, *args: Any, **kwargs: Any) -> Any:
        deferred: DeferredHead | None = vars(self).get(_MARK)
        # With keywords (PEFT's adapter_names) the head does more than is folded in.
        if deferred is None or deferred.generating or args or kwargs:
            return own(self, hidden, *args, **kwargs)
        if any(hasattr(parameter, "ds_id") for parameter in self.parameters()):
            raise ValueError(
                "ZeRO-3 takes the head's weights away after its call, before deferred logits use "
                "them: use fuse_causal_lm_loss where the model's own loss serves, or ZeRO-2"
            )
        return _of_head(self, hidden, deferred.workspace_bytes)

    return forward


def _generating_with_logits(own: Callable[..., Any]) -> Callable[..., Any]:
    def generate(self: Any, *args: Any, **kwargs: Any) -> Any:
        deferred: DeferredHead | None = vars(self).get(_MARK)
        if deferred is None:
            return own(self, *args, **kwargs)
        deferred.generating += 1
        try:
            return own(self, *args, **kwargs)
        finally:
            deferred.generating -= 1

    return generate


def sequence_logprobs(
    model: nn.Module,
    labels: Tensor,
    *,
    workspace_bytes: int | None = None,
    temperature: float = 1.0,
    **inputs: Any,
) -> Tensor:
    """Log-probability `[B, L]` that a causal LM gives each next token, without its logits.

    Entry t belongs to the label at t + 1; it is zero where that label is negative, and in the last
    column. Differentiable: reference log-probabilities are the same under `torch.no_grad()`, which
    builds no graph and keeps no gradient.

    Args:
        model: a transformers causal LM, bare or wrapped (PEFT, DDP, torch.compile).
        labels: `[B, L]`, -100 where ignored, unshifted as for the model's own loss.
        workspace_bytes: as in `token_logprobs`.
        temperature: divides the logits.
        inputs: what the model takes: `input_ids`, `attention_mask`, ...

    Raises TypeError if `model` is no `nn.Module`, ValueError for labels that are no token ids and
    for a temperature that is not positive.
    """
    unwrap(model)  # raises TypeError if it is not an nn.Module
    check_targets(labels, "labels")
    LogitTransform(temperature=temperature)  # raises ValueError unless it is positive
    target = functional.pad(labels, (0, 1), value=-100)[..., 1:]
    with defer_logits(model, workspace_bytes=workspace_bytes):
        logits: DeferredLogits = model(**inputs, use_cache=False).logits
    scaled: DeferredLogits = logits / temperature
    return scaled.statistics(target.to(logits.device)).logprob
