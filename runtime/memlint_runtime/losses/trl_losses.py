"""TRL's trainers without full logits, and below TRL's own chunks where it has them.

What: `fuse_trl_losses(trainer)` gives a constructed trainer the tiled losses until undone.
Trainers whose models carry TRL's fused head (SFT, DPO, KTO, GRPO, RLOO) get the tiles in place of
its chunks, which hold 4,096 x 32,768 logits and recompute them in backward. Trainers that ask for
full logits (CPO, ORPO) get `DeferredLogits`, for the policy and for the reference, whose
log-probabilities are computed without a graph.
Tested with trl 1.16; another layout is refused when this is called, not in the middle of training.
Cost: functions of TRL's modules are replaced until undone, and pass other trainers' calls through.
"""

from __future__ import annotations

import inspect
import sys
import threading
import warnings
from collections.abc import Callable
from typing import Any

from torch import Tensor

from memlint_runtime.integrations import Patch
from memlint_runtime.integrations.patching import bound_to
from memlint_runtime.losses.deferred import DeferredLogits, defer_logits, real
from memlint_runtime.losses.token_logprobs import token_statistics

# What TRL 1.16 passes to their chunked function, in order.
_CHUNKED_ARGUMENTS = (
    "hidden", "weight", "bias", "targets", "temperature", "chunk_size", "final_logit_softcapping",
    "logit_scale", "outputs",
)  # fmt: skip
_CHUNKED = "_ChunkedLogProbFunction"
# What of a trainer may compute log-probabilities.
_ENTRIES = ("train", "evaluate", "predict", "training_step", "prediction_step", "compute_loss")


class _TrlLosses(Patch):
    """scored: how often log-probabilities were computed by tiles."""

    def __init__(self, trainer: Any, workspace_bytes: int | None) -> None:
        super().__init__(trainer, "the trainer's losses are fused")
        self.workspace_bytes = workspace_bytes
        self.scored = 0
        self.told = False


class _Computing(threading.local):
    """The handles of the trainers at work in this thread, the inmost last."""

    def __init__(self) -> None:
        self.handles: list[_TrlLosses] = []


_COMPUTING = _Computing()


def fuse_trl_losses(trainer: Any, *, workspace_bytes: int | None = None) -> Patch:
    """Compute a TRL trainer's log-probabilities tile by tile, until undone.

    Args:
        trainer: a constructed trainer of trl.
        workspace_bytes: as in `token_logprobs`.

    Raises ValueError if the trainer is none of trl's, or of a version whose functions differ.
    """
    names = [
        kind.__module__ for kind in type(trainer).__mro__ if kind.__module__.startswith("trl.")
    ]
    if not names:
        raise ValueError(
            f"wants a trainer of trl, got {type(trainer).__name__}: for transformers.Trainer use "
            "fuse_causal_lm_loss(model)"
        )
    handle = _TrlLosses(trainer, workspace_bytes)
    try:
        if _has_fused_head(trainer.model):
            _replace_chunks(handle)
            for name in _ENTRIES:
                handle.replace(trainer, name, bound_to(trainer, name, _at_work(handle, name)))
        else:
            _defer(trainer, names, workspace_bytes, handle)
    except BaseException:
        handle.undo()
        raise
    return handle


def _has_fused_head(model: Any) -> bool:
    inner = model.get_base_model() if hasattr(model, "get_base_model") else model
    forward = inspect.unwrap(inner.forward, stop=lambda f: "fused_lm_head" in _parameters(f))
    return "fused_lm_head" in _parameters(forward)


def _parameters(function: Any) -> list[str]:
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    return (
        [] if code is None else list(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
    )


# -- trainers with TRL's fused head ---------------------------------------------------------------


def _at_work(handle: _TrlLosses, name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """What makes the tiles stand in while this trainer computes, and not another one."""

    def make(own: Callable[..., Any]) -> Callable[..., Any]:
        known = getattr(own, "__module__", "").split(".")[0] in ("trl", "transformers")
        watched = name == "compute_loss" and not known

        def method(self: Any, *args: Any, **kwargs: Any) -> Any:
            scored = handle.scored
            _COMPUTING.handles.append(handle)
            try:
                result = own(self, *args, **kwargs)
            finally:
                _COMPUTING.handles.pop()
            if watched and handle.scored == scored and not handle.told:
                handle.told = True
                warnings.warn(
                    f"fuse saves nothing in {type(self).__name__}.compute_loss, which goes past "
                    "TRL's fused head: call super().compute_loss there, or "
                    "memlint_runtime.losses.cross_entropy on the hidden states",
                    stacklevel=2,
                )
            return result

        return method

    return make


def _replace_chunks(handle: _TrlLosses) -> None:
    from trl.trainer import utils

    chunked: Any = getattr(utils, _CHUNKED, None)
    # Of another trainer of this process: TRL's own is below it.
    chunked = getattr(chunked, "of_trl", chunked)
    found = () if chunked is None else tuple(inspect.signature(chunked.forward).parameters)[1:]
    if found != _CHUNKED_ARGUMENTS:
        import trl

        raise ValueError(
            f"trl {trl.__version__} chunks its log-probabilities by a function of {found}, tested "
            f"is one of {_CHUNKED_ARGUMENTS} (trl 1.16): leave its own loss, or use trl==1.16"
        )

    class TiledLogProbs:
        """Stands in for TRL's chunked autograd function."""

        of_trl = chunked

        @staticmethod
        def apply(
            hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, *options: Any
        ) -> Any:
            temperature, _, softcap, logit_scale, outputs = options
            if "log_sum_sq_probs" in outputs or not _COMPUTING.handles:
                return chunked.apply(hidden, weight, bias, targets, *options)
            computing = _COMPUTING.handles[-1]
            computing.scored += 1
            found = token_statistics(
                hidden,
                weight,
                targets,
                linear_bias=bias,
                temperature=temperature,
                softcap=softcap,
                logit_scale=logit_scale,
                entropy="entropy" in outputs,
                mean_logit="mean_logits" in outputs,
                extras_differentiable="mean_logits" not in outputs,
                workspace_bytes=computing.workspace_bytes,
            )
            top = found.is_top if "is_top1" in outputs else None
            return found.logprob, found.entropy, None, found.mean_logit, top

    handle.replace(utils, _CHUNKED, TiledLogProbs)


# -- trainers that ask for logits -----------------------------------------------------------------


def _defer(trainer: Any, names: list[str], workspace_bytes: int | None, handle: Patch) -> None:
    for model in (trainer.model, getattr(trainer, "ref_model", None)):
        if model is not None:
            deferred = defer_logits(model, workspace_bytes=workspace_bytes)
            handle.on_undo(deferred.undo)
    for name in names:
        module = sys.modules[name]
        for function, make in _LOG_PROBABILITY_FUNCTIONS.items():
            own = getattr(module, function, None)
            if own is not None:
                handle.replace(module, function, make(own))


def _selective_log_softmax(own: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def selective_log_softmax(
        logits: Any,
        index: Tensor,
        temperature: float = 1.0,
        row_mask: Tensor | None = None,
    ) -> Tensor:
        if not isinstance(logits, DeferredLogits) or index.ndim != logits.ndim - 1:
            return own(real(logits), index, temperature, row_mask)
        scaled: DeferredLogits = logits / temperature
        return scaled.statistics(_masked(index, row_mask)).logprob

    return selective_log_softmax


def _selective_log_softmax_and_entropy(own: Callable[..., Any]) -> Callable[..., Any]:
    def selective_log_softmax_and_entropy(
        logits: Any,
        index: Tensor,
        entropy_requires_grad: bool = True,
        temperature: float = 1.0,
        row_mask: Tensor | None = None,
    ) -> Any:
        if not isinstance(logits, DeferredLogits):
            return own(logits, index, entropy_requires_grad, temperature, row_mask)
        found = (logits / temperature).statistics(
            _masked(index, row_mask), entropy=True, extras_differentiable=entropy_requires_grad
        )
        return found.logprob, found.entropy

    return selective_log_softmax_and_entropy


def _entropy_from_logits(own: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def entropy_from_logits(logits: Any, *args: Any, **kwargs: Any) -> Tensor:
        if not isinstance(logits, DeferredLogits):
            return own(logits, *args, **kwargs)
        return logits.statistic("entropy")

    return entropy_from_logits


_LOG_PROBABILITY_FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "selective_log_softmax": _selective_log_softmax,
    "selective_log_softmax_and_entropy": _selective_log_softmax_and_entropy,
    "entropy_from_logits": _entropy_from_logits,
}


def _masked(index: Tensor, row_mask: Tensor | None) -> Tensor:
    return index if row_mask is None else index.masked_fill(row_mask == 0, -100)
