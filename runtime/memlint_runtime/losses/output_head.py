"""A model's output head as the tensors that the tiled losses take.

What: reads `nn.Linear` heads, PEFT's LoRA layers around them (the adapter stays a low-rank pair
and is folded into the tiles), heads trained whole (`modules_to_save`), and, from the model's
config, what it does to its logits: soft caps (Gemma), multipliers (Cohere, Falcon-H1), divisors
(Granite, MiniCPM3).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, Partial
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from memlint_runtime.losses.checks import is_readable
from memlint_runtime.losses.tile_ops import LogitTransform

# Their hooks shard weights or keep the head's tensors from offloading: outputs stay as they are.
_TRANSPARENT = ("torch", "deepspeed", "memlint_runtime", "trl.models.activation_offloading")

# On functions of ours that stand in for a module's own.
PATCH_MARK = "memlint_patch"

_MULTIPLIERS = ("logit_scale", "output_multiplier", "lm_head_multiplier")


@dataclass(frozen=True)
class HeadTensors:
    """`weight` `[V, D]`, `bias` `[V]`, and for LoRA the pair of `token_logprobs`, of a hidden."""

    weight: Tensor
    bias: Tensor | None
    low_rank: Callable[[Tensor], tuple[Tensor, Tensor]] | None

    def options(self, hidden: Tensor) -> dict[str, Any]:
        """Keywords of `token_logprobs`."""
        low_rank = None if self.low_rank is None else self.low_rank(hidden)
        return {"linear_bias": self.bias, "low_rank": low_rank}

    def first(self, words: int) -> HeadTensors:
        """Of the first `words` of the vocabulary alone, without an adapter."""
        bias = None if self.bias is None else self.bias[:words]
        return HeadTensors(self.weight[:words], bias, None)


def check_head(module: nn.Module) -> None:
    """Raise ValueError unless the head's forward is known to be `hidden @ weight.T + bias`.

    Known are `nn.Linear.forward`, PEFT's LoRA layer around one and PEFT's whole saved copies, as
    they are or under accelerate's hooks. A forward hook on the head is known only from libraries
    that shard or offload: any other would be given statistics where it expects logits.
    """
    refuse_hooks(module)
    if hasattr(module, "modules_to_save"):
        for copy in (module.original_module, *module.modules_to_save.values()):  # type: ignore[operator]
            check_head(copy)
        return
    base: Any = getattr(module, "base_layer", module)
    _check_linear(base)
    if base is module:
        return
    refuse_hooks(base, before=True)
    if not all(hasattr(module, name) for name in ("lora_A", "lora_B", "scaling")):
        raise ValueError(
            f"of the adapters only LoRA can be folded into the head, got "
            f"{type(module).__name__}: train the head whole (modules_to_save=['lm_head'])"
        )
    _check_lora(module)


def _check_linear(base: Any) -> None:
    """Raise ValueError unless `base` multiplies by its weight as `nn.Linear` does."""
    if hasattr(base, "token_adapter"):
        # PEFT's trainable tokens: the weight with those rows replaced, and the same matmul.
        base = base.original_module
    name = type(base).__name__
    weight = getattr(base, "weight", None)
    # Between calls ZeRO-3 leaves an empty tensor, with the whole one's shape beside it.
    if not isinstance(weight, Tensor) or len(getattr(weight, "ds_shape", weight.shape)) != 2:
        raise ValueError(f"the output head is an nn.Linear or a LoRA layer around one, got {name}")
    wrapped = is_traceable_wrapper_subclass(weight) and not isinstance(weight, DTensor)
    if not weight.is_floating_point() or hasattr(weight, "quant_state") or wrapped:
        raise ValueError(
            f"the output head is quantized ({name} of {type(weight).__name__}): leave it out of "
            "quantization (llm_int8_skip_modules=['lm_head'])"
        )
    if own_forward(base) is not nn.Linear.forward:
        raise ValueError(
            f"the output head is a {name} whose forward is not nn.Linear's, so what it does beside "
            "multiplying is not known: leave the model's own loss, or call "
            "memlint_runtime.losses.cross_entropy with the weight that its forward uses"
        )


def own_forward(module: Any) -> Any:
    """The function that a call of `module` runs, inside accelerate's hooks, outside ours."""
    place = forward_place(module)
    forward = vars(module).get(place)
    while getattr(forward, PATCH_MARK, False):
        forward = forward.__wrapped__
    if forward is None:
        return type(module).forward
    return getattr(forward, "__func__", forward)


def forward_place(module: Any) -> str:
    """The attribute that holds what `module` computes.

    accelerate keeps it as `_old_forward` and puts a function into `forward` that moves inputs and
    weights around its call.
    """
    return "_old_forward" if hasattr(module, "_hf_hook") else "forward"


def _check_lora(module: Any) -> None:
    """Raise ValueError unless a LoRA layer adds `scaling * B(A(dropout(hidden)))` and no more."""
    dora = getattr(module, "use_dora", {}).values()
    variants = getattr(module, "lora_variant", {}).values()
    if any(dora) or any(variants):
        kinds = sorted({type(variant).__name__ for variant in variants if variant}) or ["DoRA"]
        raise ValueError(
            f"the head's LoRA is a variant ({', '.join(kinds)}); DoRA, for one, scales by the norm "
            "of the whole weight, and cannot be tiled: use plain LoRA, or leave lm_head out of "
            "target_modules"
        )
    from peft.tuners import lora

    if own_forward(module) is not lora.Linear.forward:
        raise ValueError(
            f"the head's adapter is a {type(module).__name__} whose forward is not that of PEFT's "
            "LoRA: use plain LoRA, or leave lm_head out of target_modules"
        )
    for name, up in module.lora_B.items():
        if getattr(up, "bias", None) is not None:
            raise ValueError(
                f"adapter {name!r} of the head has a bias in its lora_B, which cannot be folded "
                "into the tiles: lora_bias=False, or leave lm_head out of target_modules"
            )
        if own_forward(up) is not nn.Linear.forward:
            raise ValueError(
                f"adapter {name!r} of the head has a {type(up).__name__} for its lora_B: use "
                "plain LoRA, or leave lm_head out of target_modules"
            )
        refuse_hooks(up, before=True)


def refuse_more(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raise ValueError where a head is called with more than hidden states."""
    if args or kwargs:
        names = ", ".join(kwargs) or f"{len(args)} more"
        raise ValueError(
            f"the output head is called with more than hidden states ({names}), as for batches "
            "with an adapter for each row, which is not folded into the loss: undo() the fused "
            "loss for such batches, or leave lm_head out of target_modules"
        )


def refuse_hooks(module: nn.Module, *, before: bool = False) -> None:
    """Raise ValueError where a hook would see, or change, something other than logits.

    before: hooks before the forward, too; those of the head itself run as ever.
    """
    hooks = [*module._forward_hooks.values(), *module._backward_hooks.values()]
    hooks += module._backward_pre_hooks.values()
    if before:
        hooks += module._forward_pre_hooks.values()
    for hook in hooks:
        home = _home_of(hook)
        if not f"{home}.".startswith(tuple(f"{name}." for name in _TRANSPARENT)):
            raise ValueError(
                f"the output head has a hook of {home}, which expects logits and would be given "
                "something else: remove it first, or leave the model's own loss"
            )


def _home_of(hook: Any) -> str:
    """Module that a hook's function is defined in."""
    while hasattr(hook, "func"):
        hook = hook.func
    function = getattr(hook, "__func__", hook)
    return str(getattr(function, "__module__", None) or type(hook).__module__)


def read_head(module: Any) -> HeadTensors:
    """The tensors of a head that `check_head` accepts, gathered where they are sharded."""
    if hasattr(module, "modules_to_save"):
        adapter = module.active_adapter
        chosen = adapter[0] if isinstance(adapter, (list, tuple)) else adapter
        if getattr(module, "disable_adapters", False) or chosen not in module.modules_to_save:
            return read_head(module.original_module)
        return read_head(module.modules_to_save[chosen])
    base: Any = getattr(module, "base_layer", module)
    if hasattr(base, "token_adapter") and base.disable_adapters:
        base = base.original_module
    weight, bias = gather(base.weight), gather(getattr(base, "bias", None))
    assert weight is not None
    low_rank = None if base is module else _low_rank_of(module)
    return HeadTensors(weight, bias, low_rank)


def _low_rank_of(layer: Any) -> Callable[[Tensor], tuple[Tensor, Tensor]] | None:
    if layer.disable_adapters or layer.merged:
        return None
    adapters = [name for name in layer.active_adapters if name in layer.lora_A]
    if not adapters:
        return None

    def low_rank(hidden: Tensor) -> tuple[Tensor, Tensor]:
        down, up = [], []
        for name in adapters:
            weight_A = layer.lora_A[name]
            entered = hidden
            if not torch.is_autocast_enabled(hidden.device.type):
                entered = hidden.to(weight_A.weight.dtype)
            down.append(weight_A(layer.lora_dropout[name](entered)) * layer.scaling[name])
            gathered = gather(layer.lora_B[name].weight)
            assert gathered is not None
            up.append(gathered)
        return torch.cat(down, -1), up[0] if len(up) == 1 else torch.cat(up, 1)

    return low_rank


def gather(tensor: Tensor | None) -> Tensor | None:
    """A whole tensor of a sharded one. Its gradient is averaged over the ranks on the way back."""
    if isinstance(tensor, DTensor):
        return tensor.full_tensor(grad_placements=[Partial("avg")] * tensor.device_mesh.ndim)
    return tensor


def logit_transform(config: Any, forward: Any = None) -> LogitTransform:
    """What a transformers config says the model does to its raw logits.

    forward: the model's own. Where the config is one of several parts (text and vision), the text
    part may hold a setting that only the text model's own class applies, so that what `forward`
    does not name is left out.
    """
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    code = getattr(forward, "__code__", None)
    named = None if text is config or code is None else {*code.co_names, *code.co_consts}

    def setting(name: str) -> Any:
        return None if named is not None and name not in named else getattr(text, name, None)

    scale = 1.0
    for name in _MULTIPLIERS:
        multiplier = setting(name)
        if multiplier is not None:
            scale = float(multiplier)
            break
    else:
        divisor = setting("logits_scaling")
        if divisor is not None:
            scale = float(divisor) if text.model_type == "hyperclovax" else 1.0 / float(divisor)
    return LogitTransform(scale, setting("final_logit_softcapping"))


def check_transform(causal: Any, output: Tensor, logits: Tensor, transform: LogitTransform) -> bool:
    """Compare what the model did to the head's output with what its config was taken to say.

    Returns whether that is settled: a batch of masked tokens tells nothing.
    """
    if not is_readable(logits):
        return False
    was, became = output.detach().double(), logits.detach().double()
    if not bool(was.any()):
        return False
    expected = transform.apply_(was.clone())
    if became.shape != was.shape or not torch.allclose(became, expected, rtol=1e-2, atol=1e-3):
        raise ValueError(
            f"{type(causal).__name__} changes its logits in a way that its config "
            f"(read as {transform}) does not tell: its loss cannot be fused. Please report the "
            "model; memlint_runtime.losses.cross_entropy takes the scale and soft cap by hand"
        )
    return True
