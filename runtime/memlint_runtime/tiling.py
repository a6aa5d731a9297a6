"""The MLP over tiles of the sequence, computed again in backward.

Of all that a layer makes, the MLP's intermediate tensors are the largest: gate, up and their
product, three times tokens x intermediate size, and again as many gradients in backward. A token's
MLP needs no other token, so it is exact to do some tokens at a time: what is alive is one tile's
intermediates, whatever the sequence's length. Cost: the MLP's forward once more in backward, unless
the layer is checkpointed, which computes it again anyway: then the layer's second pass stops at
the MLP's input, and nothing is computed a third time.

Weight gradients are summed over tiles in fp32 and rounded once (one layer's worth of memory), so
low precision loses nothing over the untiled sum.

Sources: the tiled MLP of Arctic Long Sequence Training, arXiv:2506.13996; Liger-Kernel's, which
measured 2,416 -> 1,056 MB at 16k tokens and hidden size 2,048.

Legend: T tokens of a sequence, D hidden size, B sequences.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import MethodType
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import get_device_states, set_device_states

from memlint_runtime.integrations import Patch, require_model
from memlint_runtime.quantities import whole_number
from memlint_runtime.single_backward import SingleBackward, within_transform

__all__ = ["TiledForward", "TiledModules", "tile_mlp"]

_NAMES = ("mlp", "feed_forward", "ffn")
_ROUTED = ("moe", "sparse", "expert", "router")


def tile_mlp(
    model: nn.Module, *, tile_tokens: int | None = None, names: Sequence[str] = _NAMES
) -> TiledModules:
    """Tile the forward of every MLP in `model`; in training only, generation is as before.

    Args:
        model: any model whose MLPs are submodules called one of `names` and map [..., T, D] to
            [..., T, any], each token for itself.
        tile_tokens: tokens of a tile; the larger of 1,024 and D unless given.
        names: last part of the module's name; one name may be given by itself.

    Returns:
        The modules that are tiled now, as a sequence whose `undo()` undoes it.

    Raises:
        ValueError: if there are none, if one routes tokens to experts (its router's statistics
            go over the whole sequence), if `tile_tokens` is no whole number of 1 or more, or if
            one is tiled already with another.
        TypeError: if `model` is none.
    """
    require_model(model)
    if tile_tokens is not None:
        tile_tokens = whole_number("tile_tokens", tile_tokens, 1, "token")
    if isinstance(names, str):
        names = (names,)
    found = {
        name: module for name, module in model.named_modules() if name.rpartition(".")[2] in names
    }
    if not found:
        raise ValueError(
            f"no submodule of {type(model).__name__} is called {' or '.join(names)}; pass names=("
            f"'the name of its MLP',)"
        )
    for name, module in found.items():
        _require_tileable(name, module, tile_tokens)
    tiled = TiledModules(model, list(found.values()))
    for module in tiled:
        if not isinstance(module.forward, TiledForward):
            made = TiledForward(module, module.forward, tile_tokens)
            tiled.replace(module, "forward", made)
    return tiled


def _require_tileable(name: str, module: nn.Module, tile_tokens: int | None) -> None:
    kinds = [type(part).__name__ for part in module.modules()]
    routed = [kind for kind in kinds if any(word in kind.lower() for word in _ROUTED)]
    if routed:
        raise ValueError(
            f"{name} routes tokens to experts ({routed[0]}) and counts them over the whole "
            f"sequence; tile_mlp takes dense MLPs only"
        )
    before = module.forward
    if tile_tokens and isinstance(before, TiledForward) and before.tile_tokens != tile_tokens:
        raise ValueError(
            f"{name} is tiled already, with tile_tokens={before.tile_tokens}: undo that first, "
            "by .undo() of what tile_mlp returned or by undo(model)"
        )


class TiledModules(Patch):
    """The modules that `tile_mlp` has tiled; `undo()` gives them their own forward back."""

    def __init__(self, model: nn.Module, modules: list[nn.Module]) -> None:
        super().__init__(model, "the model's MLPs are tiled")
        self.modules = modules

    def __len__(self) -> int:
        return len(self.modules)

    def __iter__(self) -> Iterator[nn.Module]:
        return iter(self.modules)

    def __getitem__(self, index: int) -> nn.Module:
        return self.modules[index]


@dataclass
class TiledForward:
    """Stands in for a module's `forward`. A plain object, so models with it can be copied."""

    module: nn.Module
    untiled: Callable[..., Tensor]
    tile_tokens: int | None = None

    def __call__(self, hidden: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        tokens = hidden.shape[-2] if hidden.dim() > 1 else 1
        tile = self.tile_tokens or max(1024, hidden.shape[-1])
        tiles = tokens > tile and torch.is_grad_enabled() and not within_transform()
        if args or kwargs or not tiles:
            return self.untiled(hidden, *args, **kwargs)
        result: Tensor = self._tiled(hidden, tile)
        return result

    def for_replica(self, replica: nn.Module) -> TiledForward:
        """The same of a replica that `nn.DataParallel` makes, whose weights are its own."""
        untiled = self.untiled
        if getattr(untiled, "__self__", None) is self.module:
            untiled = MethodType(untiled.__func__, replica)  # type: ignore[attr-defined]
        return TiledForward(replica, untiled, self.tile_tokens)

    # Kept out of compiled graphs: how many tensors a node saves is not known to be the same there,
    # and gradients are taken within its backward.
    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def _tiled(self, hidden: Tensor, tile: int) -> Tensor:
        weights = [p for p in _weights_of(self.module) if p.requires_grad]
        if not weights and not hidden.requires_grad:
            return self.untiled(hidden)
        call = _Call(self.untiled, tile, _Circumstances.now(hidden), hidden.requires_grad)
        # Saved by a node of its own before anything is computed: an outer checkpoint's second
        # pass ends with the last tensor saved, so it ends here instead of after the MLP.
        if hidden.requires_grad:
            hidden = _SaveInput.apply(hidden)  # type: ignore[no-untyped-call]
            call.saver = hidden.grad_fn
        result: Tensor = _Tiled.apply(call, hidden, *weights)
        return result


def _weights_of(module: nn.Module) -> Iterator[Tensor]:
    """The parameters of a module, and what stands for them in a replica of `nn.DataParallel`."""
    yield from module.parameters()
    for part in module.modules():
        yield from getattr(part, "_former_parameters", {}).values()


@dataclass
class _Call:
    untiled: Callable[..., Tensor]
    tile_tokens: int
    circumstances: _Circumstances
    needs_input_gradient: bool
    saver: Any = None

    def spans(self, hidden: Tensor) -> Iterator[tuple[int, int]]:
        """(first token, number of tokens) of each tile of `hidden` [..., T, D]."""
        tokens = hidden.shape[-2]
        for start in range(0, tokens, self.tile_tokens):
            yield start, min(self.tile_tokens, tokens - start)


@dataclass
class _Circumstances:
    """What decides, beside the inputs, what a forward computes: random numbers and autocast."""

    cpu_random: Tensor
    devices: Any
    device_random: Any
    autocast: dict[str, Any]

    @staticmethod
    def now(hidden: Tensor) -> _Circumstances:
        kind = hidden.device.type
        devices, states = get_device_states(hidden)
        autocast = {
            "device_type": kind,
            "enabled": torch.is_autocast_enabled(kind),
            "dtype": torch.get_autocast_dtype(kind),
            "cache_enabled": torch.is_autocast_cache_enabled(),
        }
        return _Circumstances(torch.get_rng_state(), devices, states, autocast)

    def restore(self, hidden: Tensor) -> None:
        torch.set_rng_state(self.cpu_random)
        if self.devices:
            set_device_states(self.devices, self.device_random, device_type=hidden.device.type)


class _SaveInput(torch.autograd.Function):
    """The identity, which saves its input for `_Tiled`."""

    @staticmethod
    def forward(ctx: Any, hidden: Tensor) -> Tensor:
        ctx.save_for_backward(hidden)
        return hidden.view_as(hidden)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return gradients[0]


class _Tiled(SingleBackward):
    @staticmethod
    def forward(ctx: Any, call: _Call, hidden: Tensor, *weights: Tensor) -> Tensor:
        ctx.call = call
        ctx.weights = weights
        if call.saver is None:
            ctx.save_for_backward(hidden)
        output: Tensor | None = None
        for start, length in call.spans(hidden):
            # Of several sequences a tile is no block of memory, which `view` asks for.
            part = call.untiled(hidden.narrow(-2, start, length).contiguous())
            if not isinstance(part, Tensor) or part.shape[:-1] != (*hidden.shape[:-2], length):
                raise ValueError(
                    f"tile_mlp needs an MLP that maps each token to one vector, but "
                    f"{getattr(call.untiled, '__qualname__', call.untiled)} returned "
                    f"{tuple(part.shape) if isinstance(part, Tensor) else type(part).__name__} "
                    f"for {length} tokens"
                )
            if output is None:
                output = part.new_empty(*hidden.shape[:-1], part.shape[-1])
            output.narrow(-2, start, length).copy_(part)
        assert output is not None
        return output

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        (gradient,) = gradients
        call: _Call = ctx.call
        (hidden,) = ctx.saved_tensors if call.saver is None else call.saver.saved_tensors
        weights: tuple[Tensor, ...] = ctx.weights
        hidden_gradient = torch.empty_like(hidden) if call.needs_input_gradient else None
        totals: list[Tensor | None] = [None] * len(weights)
        devices = call.circumstances.devices
        with torch.random.fork_rng(devices, device_type=_accelerator(hidden)):
            call.circumstances.restore(hidden)
            for start, length in call.spans(hidden):
                part = hidden.narrow(-2, start, length).contiguous().detach()
                part.requires_grad_(call.needs_input_gradient)
                with torch.enable_grad(), torch.autocast(**call.circumstances.autocast):
                    output = call.untiled(part)
                wanted = [part, *weights] if call.needs_input_gradient else list(weights)
                found = torch.autograd.grad(
                    output, wanted, gradient.narrow(-2, start, length), allow_unused=True
                )
                del output
                if hidden_gradient is not None:
                    hidden_gradient.narrow(-2, start, length).copy_(found[0])
                _add(totals, found[len(wanted) - len(weights) :])
        weight_gradients = [
            None if total is None else total.to(weight.dtype)
            for total, weight in zip(totals, weights, strict=True)
        ]
        return None, hidden_gradient, *weight_gradients


def _add(totals: list[Tensor | None], found: Any) -> None:
    """Add to each total in fp32, or in the gradient's own type where that is wider."""
    for index, gradient in enumerate(found):
        if gradient is None:
            continue
        total = totals[index]
        if total is None:
            kind = torch.promote_types(gradient.dtype, torch.float32)
            totals[index] = gradient.to(kind)
        else:
            total.add_(gradient)


def _accelerator(tensor: Tensor) -> str:
    return "cuda" if tensor.device.type in ("cpu", "meta") else tensor.device.type
