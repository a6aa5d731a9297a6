"""A transformers causal LM whose own loss is computed without logits, in `Trainer` or a loop.

What: `fuse_causal_lm_loss(model)` replaces, until undone, what the model's output head returns
while labels are given: instead of logits the loss, `[1, 1, 3]` with two probes. The model's own
forward goes on as ever (auxiliary losses, vision towers, PEFT), and its `loss_function` returns
what transformers' does: label shift, ignore index, `num_items_in_batch`. Without labels, as in
generation, nothing differs. `outputs.logits` is None where the loss was fused.
Why inside the head's call: sharding (DDP, FSDP, ZeRO-3) gathers a module's weights around its
call and hooks its output, so the head is gathered once, outside the loop over tiles, and its
gradient is reduced as ever.
Accepted is what is known to be the same: a loss that is transformers' `ForCausalLMLoss` (causal LMs
and text batches of `...ForConditionalGeneration`), a head whose forward is `nn.Linear`'s. Whatever
else is found is refused when this is called, or in the first step, with the reason.
Cost: see `statistics`. What the model does to its logits is read from its config, and checked once
against what it did to the probes.
"""

from __future__ import annotations

import inspect
import threading
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import MethodType
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from memlint_runtime.integrations import Patch, unwrap
from memlint_runtime.integrations.patching import REPLICATE, bound_to, is_replica
from memlint_runtime.losses import checks, other_backends
from memlint_runtime.losses.cross_entropy import cross_entropy, over_items
from memlint_runtime.losses.other_backends import Backend, check_backend
from memlint_runtime.losses.output_head import (
    PATCH_MARK,
    check_head,
    check_transform,
    forward_place,
    logit_transform,
    read_head,
    refuse_hooks,
    refuse_more,
)
from memlint_runtime.losses.planning import whole_fits
from memlint_runtime.losses.remote_weights import is_remote
from memlint_runtime.losses.tile_ops import LogitTransform

# Logits that soft caps and scales change.
_PROBES = (10.0, -40.0)
# On a model and its head while the loss is fused.
_MARK = "memlint_fused_loss"


@dataclass(frozen=True)
class _Options:
    label_smoothing: float
    z_loss: float
    dynamic: bool
    workspace_bytes: int | None
    fuse_evaluation: bool
    backend: Backend
    transform: LogitTransform


@dataclass
class _Request:
    """The labels of a forward pass under way, and what the head made of them.

    items: what the loss divides by, if given. whole: whether its logits are few, and the head
    makes them as ever. divisor: what the head has divided the loss by, where it made that.
    """

    labels: Tensor | None
    target: Tensor
    items: Any = None
    whole: bool = False
    output: Tensor | None = None
    divisor: Tensor | None = None


class _Requests(threading.local):
    """Requests under way, the inmost last: of each thread its own, as of each copy of a model.

    `nn.DataParallel` calls a model's replicas in threads, and other code may do so with one model.
    """

    def __init__(self) -> None:
        self.pending: list[_Request] = []

    def __deepcopy__(self, memo: Any) -> _Requests:
        return _Requests()


class FusedLoss(Patch):
    """Undoes the fusing by `undo()`, or at the end of a `with` block."""

    def __init__(self, causal: Any, options: _Options) -> None:
        super().__init__(causal, "the model's loss is fused")
        self.options = options
        self.head: Any = None
        self.own_loss: Any = None
        self._requests = _Requests()
        # Whether a batch has shown that the logits' transform is the config's, and whether any
        # training step has come to the loss.
        self.checked = False
        # While an evaluation step wants the loss and nothing else.
        self.loss_alone = False
        self.reached = False

    @property
    def model(self) -> Any:
        return self.owner

    @property
    def requests(self) -> list[_Request]:
        return self._requests.pending


def fuse_causal_lm_loss(
    model: nn.Module,
    *,
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
    dynamic: bool = False,
    workspace_bytes: int | None = None,
    fuse_evaluation: bool = False,
    backend: Backend = "tiles",
) -> FusedLoss:
    """Compute the model's loss without its logits, until undone.

    Args:
        model: a transformers causal LM, or a conditional-generation model for text batches, bare
            or wrapped (PEFT, DDP, torch.compile). Call this after PEFT has wrapped it, before or
            after a trainer takes it.
        label_smoothing, z_loss, dynamic: as in `cross_entropy`.
        workspace_bytes: as in `token_logprobs`.
        fuse_evaluation: also in `eval()` mode. Turn it on where evaluation wants the loss alone:
            `compute_metrics`, `Trainer.predict` and code that reads `outputs.logits` get none, as
            code that reads them in training gets None in any case.
        backend: "tiles"; "torch" for PyTorch's own chunks (2.13 and later), "liger" for
            liger-kernel's fused cross entropy.

    Returns a handle with `undo()`, which is a context manager as well. Warns once where training
    steps go past the fused loss.
    A second call with the same options returns the same handle: trainers may share a model, and
    cells of a notebook run again. Evaluation is then fused only if every call wants that.
    Raises ValueError if the model is fused with other options, or of a kind that cannot be, or if
    an option is out of its range; TypeError if `model` is no `nn.Module`.
    """
    checks.check_penalties(label_smoothing, z_loss)
    checks.check_workspace(workspace_bytes)
    causal = unwrap(model)
    chosen: dict[str, Any] = {
        "label_smoothing": label_smoothing, "z_loss": z_loss, "dynamic": dynamic,
        "workspace_bytes": workspace_bytes, "backend": backend,
    }  # fmt: skip
    earlier = fused_loss_of(causal)
    if earlier is not None:
        return _again(earlier, chosen, fuse_evaluation)
    head = find_head(causal)
    forward = inspect.unwrap(causal.forward)
    if "liger" in forward.__module__:
        raise ValueError(
            "liger-kernel has replaced the model's forward by its own fused loss: load it without "
            "(use_liger_kernel=False, or liger_kernel_config={'fused_linear_cross_entropy': False})"
        )
    if "loss_function" not in forward.__code__.co_names:
        raise ValueError(
            f"{type(causal).__name__} computes its loss by itself, not by its loss_function, so it "
            "cannot be replaced: call memlint_runtime.losses.cross_entropy on its hidden states"
        )
    _require_causal_lm_loss(causal)
    check_backend(backend, label_smoothing=label_smoothing, z_loss=z_loss, dynamic=dynamic)
    transform = logit_transform(causal.config, forward)
    options = _Options(fuse_evaluation=fuse_evaluation, transform=transform, **chosen)
    fused = FusedLoss(causal, options)
    _patch_model(causal, fused)
    _patch_head(head, fused)
    return fused


def _again(earlier: FusedLoss, chosen: dict[str, Any], fuse_evaluation: bool) -> FusedLoss:
    """The handle of a model that is fused already. Raises ValueError where options differ."""
    options = earlier.options
    if any(getattr(options, name) != value for name, value in chosen.items()):
        raise ValueError("the model's loss is fused already, with other options: undo() that first")
    earlier.options = replace(options, fuse_evaluation=options.fuse_evaluation and fuse_evaluation)
    return earlier


def fused_loss_of(module: Any) -> FusedLoss | None:
    """The handle by which a model's or head's loss is fused, if it is."""
    found: FusedLoss | None = vars(module).get(_MARK)
    return found


def _require_causal_lm_loss(causal: Any) -> None:
    """Raise ValueError unless the model's loss is transformers' own for causal LMs."""
    from transformers.loss.loss_utils import ForCausalLMLoss

    found = causal.loss_function
    if inspect.unwrap(found) is ForCausalLMLoss:
        return
    name = getattr(found, "__qualname__", None) or type(found).__qualname__
    if "_loss_function" in vars(causal):
        raise ValueError(
            f"the model's loss_function was set to {name}, which would be replaced by plain cross "
            "entropy: leave it, or call memlint_runtime.losses.token_logprobs in it"
        )
    raise ValueError(
        f"fuses transformers' ForCausalLMLoss, and {type(causal).__name__} has {name}: call "
        "memlint_runtime.losses.cross_entropy on its hidden states"
    )


def find_head(causal: Any) -> nn.Module:
    """The output head of a transformers model. Raises ValueError if there is none to tile."""
    head = causal.get_output_embeddings() if hasattr(causal, "get_output_embeddings") else None
    if not isinstance(head, nn.Module):
        raise ValueError(
            f"wants a transformers causal LM with an output head, got {type(causal).__name__}"
        )
    check_head(head)
    return head


def _patch_model(causal: Any, fused: FusedLoss) -> None:
    place = list(inspect.signature(causal.forward).parameters).index("labels")

    def fused_forward(own: Callable[..., Any]) -> Callable[..., Any]:
        def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
            fused = fused_loss_of(self)
            labels = args[place] if len(args) > place else kwargs.get("labels")
            shifted = kwargs.get("shift_labels")
            if (
                fused is None
                or (labels is None and shifted is None)
                or not (self.training or fused.options.fuse_evaluation or fused.loss_alone)
            ):
                return own(self, *args, **kwargs)
            if getattr(vars(self).get("_loss_function"), "__func__", None) is not _fused_loss:
                raise ValueError(
                    "the model's loss_function was set after fuse_causal_lm_loss, which fuses "
                    "plain cross entropy alone: undo() it, or leave loss_function"
                )
            _follow_head(self, fused)
            target = _targets(labels, shifted, kwargs.get("ignore_index", -100))
            items = kwargs.get("num_items_in_batch")
            fused.requests.append(_Request(labels, target, items, _is_whole(fused, target)))
            try:
                outputs = own(self, *args, **kwargs)
            finally:
                fused.requests.pop()
            if isinstance(outputs, tuple):
                raise ValueError("a fused loss needs return_dict=True, which is the default")
            outputs["logits"] = None
            return outputs

        return forward

    fused.own_loss = causal.loss_function
    fused.replace(causal, _MARK, fused)
    fused.replace(causal, "forward", bound_to(causal, "forward", fused_forward))
    fused.replace(causal, "_loss_function", MethodType(_fused_loss, causal))
    fused.replace(causal, REPLICATE, bound_to(causal, REPLICATE, _following_head))
    watch = _Watch(fused)
    watch.handle = getattr(causal, "base_model", causal).register_forward_pre_hook(watch)
    fused.on_undo(watch.stop)


def _patch_head(head: Any, fused: FusedLoss) -> None:
    place = forward_place(head)

    def fused_score(own: Callable[..., Any]) -> Callable[..., Any]:
        def score(self: Any, hidden: Tensor, *args: Any, **kwargs: Any) -> Any:
            fused = fused_loss_of(self)
            if fused is None or not fused.requests or fused.requests[-1].whole:
                return own(self, hidden, *args, **kwargs)
            refuse_more(args, kwargs)
            return _score_head(fused, self, hidden)

        return score

    score = bound_to(head, place, fused_score)
    setattr(score.__func__, PATCH_MARK, True)
    fused.head = head
    fused.replace(head, place, score)
    # On the head as well: whoever copies only that is stopped.
    fused.replace(head, _MARK, fused)


def _follow_head(causal: Any, fused: FusedLoss) -> None:
    """Patch the head that the model has now: resized embeddings and PEFT bring another."""
    # A replica's head was followed when it was made, and is another one at each call.
    if torch.compiler.is_compiling() or is_replica(causal):
        return
    head = causal.get_output_embeddings()
    if head is not fused.head:
        find_head(causal)
        _patch_head(head, fused)


def _following_head(own: Callable[..., Any]) -> Callable[..., Any]:
    """Makes a replica, whose head is the one that the model has now."""

    def replicate(self: Any) -> Any:
        fused = fused_loss_of(self)
        if fused is not None:
            _follow_head(self, fused)
        return own(self)

    return replicate


def _score_head(fused: FusedLoss, head: Any, hidden: Tensor) -> Tensor:
    """What the head returns while a loss is computed: statistics `[B, L, k]`."""
    request = fused.requests[-1]
    if head is not fused.head and not is_replica(head):
        raise ValueError("the fused loss met a head that is not the model's output embeddings")
    if request.output is not None:
        raise ValueError(
            f"{type(fused.model).__name__} calls its output head more than once for a loss, which "
            "is not known how to fuse: call memlint_runtime.losses.cross_entropy by hand"
        )
    if hidden.shape[:-1] != request.target.shape:
        raise ValueError(
            f"one label per hidden state: got labels {list(request.target.shape)} for hidden "
            f"states {list(hidden.shape)}; do not pass logits_to_keep with labels"
        )
    if not torch.compiler.is_compiling():
        refuse_hooks(head)
    request.target = request.target.to(hidden.device)
    request.output = _score_tokens(head, hidden, request, fused.options)
    if head._forward_hooks:
        # Added while the module runs, so it comes last: what sharding makes of the output
        # (ZeRO-3 hangs its backward gather on it) is what the loss must be made of.
        def keep(module: nn.Module, inputs: Any, output: Tensor) -> None:
            request.output = output
            handle.remove()

        handle = head.register_forward_hook(keep)
    return request.output


def _fused_loss(
    self: Any, logits: Tensor, labels: Tensor | None = None, *args: Any, **kwargs: Any
) -> Any:
    """The model's `loss_function`."""
    fused = fused_loss_of(self)
    assert fused is not None
    if not fused.requests:
        return fused.own_loss(logits, labels, *args, **kwargs)
    request = fused.requests[-1]
    if request.whole:
        request.output = logits
    elif request.output is None or logits.shape[-1] != request.output.shape[-1]:
        raise ValueError(
            f"{type(self).__name__} computes its loss from something other than its output "
            "head's result, which cannot be fused: leave its own loss"
        )
    if labels is not request.labels and not _same_labels(labels, request.labels):
        raise ValueError(
            f"{type(self).__name__} changes the labels that it is given before its loss, "
            "which a fused loss would not see: leave its own loss"
        )
    if not (fused.checked or request.whole):
        fused.checked = check_transform(self, request.output, logits, fused.options.transform)
    fused.reached = True
    return _reduce(request, kwargs.get("num_items_in_batch"))


def _same_labels(given: Tensor | None, expected: Tensor | None) -> bool:
    if given is None or expected is None:
        # With shift_labels alone the model passes no labels, and its loss takes what it shifted.
        return expected is None
    if not checks.is_readable(given):
        return given.shape == expected.shape
    return given.shape == expected.shape and bool((given.to(expected.device) == expected).all())


@dataclass(eq=False)
class _Watch:
    """A hook on the trunk that warns once when a second training forward goes through and no loss
    was fused yet; it removes itself when it knows whether steps reach the loss."""

    fused: FusedLoss
    handle: RemovableHandle | None = None
    steps: int = 0

    def stop(self) -> None:
        if self.handle is not None:
            self.handle.remove()

    def __call__(self, module: nn.Module, inputs: Any) -> None:
        if torch.compiler.is_compiling() or not (module.training and torch.is_grad_enabled()):
            return
        # In a thread of several whose step is on its way to the loss, others may not be there yet.
        if self.fused.requests and not self.fused.reached:
            return
        self.steps += 1
        if self.fused.reached:
            self.stop()
        elif self.steps > 1:
            self.stop()
            warnings.warn(
                "fuse_causal_lm_loss saves nothing here: training steps do not reach the model's "
                "own loss. Trainer passes no labels with label_smoothing_factor or "
                "compute_loss_func (use the label_smoothing of fuse_causal_lm_loss); TRL's "
                "trainers compute losses of their own (use fuse_trl_losses(trainer))",
                stacklevel=2,
            )


def _targets(labels: Tensor | None, shifted: Tensor | None, ignore_index: int) -> Tensor:
    """Next-token targets `[B, L]`, -100 where ignored; the last place has no next token."""
    checks.check_ignore_index(ignore_index)
    if shifted is None:
        assert labels is not None
        shifted = nn.functional.pad(labels, (0, 1), value=ignore_index)[..., 1:]
    return torch.where(shifted == ignore_index, -100, shifted)


def _score_tokens(head: nn.Module, hidden: Tensor, request: _Request, options: _Options) -> Tensor:
    """The loss `[1, 1, 3]`, beside probes; of no items the sum, as no probe is held against NaN."""
    tensors, target = read_head(head), request.target
    request.divisor = torch.where((items := _items(request, target.device)) == 0, 1, items)
    penalties: dict[str, Any] = {
        "label_smoothing": options.label_smoothing,
        "z_loss": options.z_loss,
        "dynamic": options.dynamic,
    }
    if options.backend != "tiles":
        request.divisor = torch.ones_like(request.divisor)
        return _beside_probes(
            other_backends.summed_cross_entropy(
                options.backend, hidden, tensors, target, options.transform, **penalties
            )
        )
    total = cross_entropy(
        hidden,
        tensors.weight,
        target,
        num_items_in_batch=request.divisor,
        softcap=options.transform.softcap,
        logit_scale=options.transform.scale,
        workspace_bytes=options.workspace_bytes,
        **penalties,
        **tensors.options(hidden),
    )
    return _beside_probes(total)


def _is_whole(fused: FusedLoss, target: Tensor) -> bool:
    """True if the model's own logits are few enough to make a plain loss of them."""
    options, width = fused.options, getattr(fused.head, "out_features", None)
    plain = not (options.label_smoothing or options.z_loss or options.dynamic)
    if width is None or not plain or options.backend != "tiles" or torch.compiler.is_compiling():
        return False
    if is_remote(getattr(fused.head, "weight", target)):
        return False
    return whole_fits(target.numel() * int(width), options.workspace_bytes)


def _beside_probes(total: Tensor) -> Tensor:
    """`[1, 1, 3]`: a loss, and logits that tell what the model does to its own."""
    probes = [torch.full_like(total, value) for value in _PROBES]
    return torch.stack([total, *probes]).view(1, 1, 3)


def _items(request: _Request, device: torch.device) -> Tensor:
    """What the sum of the losses is divided by."""
    items = request.items
    return torch.as_tensor((request.target >= 0).sum() if items is None else items).to(device)


def _reduce(request: _Request, num_items_in_batch: Any) -> Tensor:
    assert request.output is not None
    request.items = num_items_in_batch
    if request.whole:
        logits, target = request.output.flatten(0, -2).float(), request.target.flatten()
        total = nn.functional.cross_entropy(logits, target.to(logits.device), reduction="sum")
        return over_items(total, _items(request, total.device))
    assert request.divisor is not None
    total = request.output[0, 0, 0]
    # Divided already, but for a model that tells its loss of other items than it was given.
    return over_items(total, _items(request, total.device), request.divisor.to(total.device))
