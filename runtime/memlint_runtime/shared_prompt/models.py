"""How a transformers model is made to attend over a prefix tree, without changing it.

A forward pass hands its `TreePass` to the decoder layers as one more keyword, which transformers
passes down to its attention function. Hooks on the attention modules choose our function while, and
only while, such a module runs with that keyword; recomputation under activation checkpointing calls
it with the same keywords and so takes the same path, long after the forward pass is over. The
model's own setting is untouched: generating, saving and scoring plainly work as before.

Layers that carry a state along the row (linear attention, state-space scans, convolutions) are run
over the tree's nodes, each from the state that its prefix ended with (`memlint_runtime.recurrent`).

Refused, with the reason: models whose layers mix tokens in yet another way, attention that does not
go through transformers' interface, dropout above 0 (rows that share a prompt would share its draw,
where G rows had G), and rows longer than a sliding window that the model's mask has and its
attention is not told of.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, PreTrainedModel

from memlint_runtime.attention import (
    ForestAttention,
    attends,
    require_within_window,
    to_one_dtype,
    window_in_mask_alone,
)
from memlint_runtime.integrations.modes import refuse_context_parallelism
from memlint_runtime.recurrent import (
    SEGMENTS,
    RowPlan,
    RowSegments,
    StateLayers,
    find_state_layers,
    tree_plan,
    watch,
)
from memlint_runtime.shared_prompt.self_test import verify_path

__all__ = [
    "AttentionSwitch", "Layers", "Pack", "TreePass", "causal_lm_inside", "dropout_inside",
    "layers_of", "switch_of", "through_backbone", "trunk_of", "unsupported_reason",
    "without_reentrant_checkpointing",
]  # fmt: skip

KEYWORD = "shared_prompt"
_DROPS = re.compile("drop|jitter")
_KNOWN_LAYER_TYPES = {"full_attention", "sliding_attention"}
# Layers that see one token at a time.
_TOKENWISE = {"mlp", "moe"}

# By layer: keys and values of attention, states of what has one.
KeysValues = dict[Any, tuple[Tensor, ...]]
# What keeps tensors of a prefix, and how many.
Layers = list[tuple[Any, int]]


def layers_of(kept: KeysValues) -> Layers:
    """The layers that kept tensors, in the order in which they did."""
    return [(layer, len(tensors)) for layer, tensors in kept.items()]


@dataclass(eq=False)
class TreePass:
    """One forward pass over a tree, and its recomputation.

    outside: keys and values `[P, K, D]` of an outside prefix, by layer; states, by module that has
    one. kept: where the layers leave theirs, if wanted. layers: those whose attention came by.
    """

    attention: ForestAttention
    outside: KeysValues | None = None
    kept: KeysValues | None = None
    layers: set[int] = field(default_factory=set)

    def segments(self) -> RowSegments:
        """What layers with a state run over."""
        attention, keeps_roots = self.attention, self.kept is not None

        def plan(continues: bool) -> RowPlan:
            nodes, before = attention.forest.nodes, attention.prefix_tokens
            return tree_plan(
                nodes, continues=continues, prefix_tokens=before, keeps_roots=keeps_roots
            )

        return RowSegments(plan, self.outside, self.kept)


# From the keywords that reach a trunk: a pass, and the keywords of its packed row.
Pack = Callable[[dict[str, Any]], tuple[TreePass, dict[str, Any]]]


def causal_lm_inside(model: nn.Module) -> PreTrainedModel:
    """The transformers model within DDP, FSDP, compile and PEFT wrappers.

    Raises ValueError where there is none.
    """
    inside: Any = model
    while not isinstance(inside, PreTrainedModel):
        for name in ("module", "_fsdp_wrapped_module", "_orig_mod"):
            if isinstance(getattr(inside, name, None), nn.Module):
                inside = getattr(inside, name)
                break
        else:
            if not hasattr(inside, "get_base_model"):
                raise ValueError(
                    "a shared prompt needs a transformers causal language model, got "
                    f"{type(model).__name__}"
                )
            if getattr(inside.active_peft_config, "is_prompt_learning", False):
                raise ValueError(
                    "prompt-learning adapters put virtual tokens before every row, which a shared "
                    "prompt does not have: use LoRA, or score the rows unshared"
                )
            inside = inside.get_base_model()
    return inside


def trunk_of(model: PreTrainedModel) -> PreTrainedModel:
    """What packed rows go through: the decoder of tokens, without towers for images or audio."""
    inside: Any = model
    is_text = model.config.get_text_config() is model.config
    trunk: PreTrainedModel = inside.base_model if is_text else inside.get_decoder()
    return trunk


def unsupported_reason(model: PreTrainedModel) -> str | None:
    """Why this model cannot attend over a prefix tree, or None where it can."""
    name, config = type(model).__name__, model.config.get_text_config()
    if model.config.is_encoder_decoder or config.is_encoder_decoder:
        return f"{name} is an encoder-decoder"
    trunk = trunk_of(model)
    if not isinstance(trunk, PreTrainedModel):
        return f"{name} has no decoder of its tokens that stands by itself"
    states = find_state_layers(trunk)
    reason = _reason_of_states(model, states)
    if reason is not None:
        return reason
    layers = {m.layer_idx for m in trunk.modules() if _knows_its_layer(m)}
    mixing = _mixing_layers(config)
    attending = {m.layer_idx for m in trunk.modules() if attends(m)} | states.places
    if not (mixing <= attending or getattr(model, "_supports_attention_backend", False)):
        return f"{name} does not call attention through transformers' interface"
    if trunk is model or not layers >= mixing:
        return f"{name} has layers whose attention modules cannot be told"
    if not getattr(config, "is_causal", True):
        return f"{name} attends in both directions"
    return None


def _reason_of_states(model: PreTrainedModel, states: StateLayers) -> str | None:
    """Why a prefix's state cannot be handed to what follows it, or None where it can."""
    name = type(model).__name__
    kinds = getattr(model.config.get_text_config(), "layer_types", None) or ()
    if states.strange is not None:
        return (
            f"{name} has layers that are not attention, whose state cannot fork: {states.strange}"
        )
    unserved = {
        kind
        for layer, kind in enumerate(kinds)
        if kind not in _KNOWN_LAYER_TYPES | _TOKENWISE and layer not in states.places
    }
    if unserved or (getattr(model, "_is_stateful", False) and not states.modules):
        found = f" ({', '.join(sorted(unserved))})" if unserved else ""
        return f"{name} has layers that are not attention{found}; their state cannot fork"
    return None


def _mixing_layers(config: Any) -> set[int]:
    """The layers in which tokens see other tokens."""
    kinds = getattr(config, "layer_types", None) or ()
    alone = {layer for layer, kind in enumerate(kinds) if kind in _TOKENWISE}
    return set(range(config.num_hidden_layers)) - alone


def dropout_inside(model: nn.Module) -> str | None:
    """The first module or setting that drops or jitters at random in training, or None.

    Settings are a module's own numbers with such a name: models hand them to functional dropout.
    """
    for name, module in model.named_modules():
        if isinstance(module, nn.modules.dropout._DropoutNd):
            if module.p > 0:
                return f"{name} has p={module.p}"
            continue
        for setting, value in vars(module).items():
            if isinstance(value, float) and value > 0 and _DROPS.search(setting):
                return f"{name} has {setting}={value}"
    return None


@contextmanager
def without_reentrant_checkpointing(model: nn.Module) -> Iterator[None]:
    """Within, layers that the model checkpoints are checkpointed by the kind that keeps a graph.

    The reentrant kind runs a layer without one, so that keys and values taken from inside it carry
    no gradient, and `torch.autograd.grad` does not reach through it.
    """
    replaced: list[tuple[nn.Module, Any]] = []
    for module in model.modules():
        function = vars(module).get("_gradient_checkpointing_func")
        if isinstance(function, partial) and function.keywords.get("use_reentrant"):
            replaced.append((module, function))
            again = partial(function, use_reentrant=False)
            vars(module)["_gradient_checkpointing_func"] = again
    try:
        yield
    finally:
        for module, function in replaced:
            vars(module)["_gradient_checkpointing_func"] = function


@contextmanager
def through_backbone(
    model: PreTrainedModel,
    tree_pass: TreePass | Pack,
    on_output: Callable[[Any], Any],
    *,
    trusted: bool = True,
) -> Iterator[None]:
    """Within, a call of `model` on a packed row attends over the tree, and what its trunk returns
    goes through `on_output` before the model sees it.

    tree_pass: the pass; or what makes it, and the packed row's keywords, of those that reach the
    trunk. trusted: refuse rows beyond a window that attention is not told of (ValueError); the
    first look at a model is what finds that window. Raises RuntimeError on leaving where some
    layer never came by.
    """
    refuse_context_parallelism("a shared prompt")
    trunk = trunk_of(model)
    switch = switch_of(model)
    running: list[tuple[TreePass, RowSegments]] = []

    def enter(_: nn.Module, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        one = tree_pass
        if not isinstance(one, TreePass):
            one, kwargs = one(kwargs)
        if trusted:
            require_within_window(model, switch.mask_window, one.attention.span)
        segments = one.segments()
        running[:] = [(one, segments)]
        # Any four-dimensional mask is taken as it is; ours is never read.
        given = next(x for x in (*args, *kwargs.values()) if isinstance(x, Tensor))
        mask = torch.zeros(1, 1, 1, 1, dtype=torch.bool, device=given.device)
        kwargs = {**kwargs, "attention_mask": mask, "use_cache": False, KEYWORD: one}
        if switch.states.modules:
            kwargs[SEGMENTS] = segments
        return args, kwargs

    def leave(_: nn.Module, args: Any, output: Any) -> Any:
        one, segments = running[0]
        missing = _mixing_layers(trunk.config) - one.layers - switch.states_alone
        passed_by = [m for m in switch.states.modules if m not in segments.reached]
        missing |= StateLayers(tuple(passed_by), None).places
        if missing:
            raise RuntimeError(
                f"{type(model).__name__} did not follow the prefix tree in layers "
                f"{sorted(missing)}: its results would be wrong. Score it without sharing prompts"
            )
        return on_output(output)

    handles = [
        trunk.register_forward_pre_hook(enter, with_kwargs=True),
        trunk.register_forward_hook(leave),
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def switch_of(model: PreTrainedModel) -> AttentionSwitch:
    """The model's switch, put in when first asked for; it stays, since a backward pass may come."""
    backbone: Any = trunk_of(model)
    if not hasattr(backbone, "_shared_prompt_switch"):
        window = window_in_mask_alone(backbone)
        backbone._shared_prompt_switch = AttentionSwitch(backbone.config, window)
        backbone._shared_prompt_switch.watch(backbone)
    switch: AttentionSwitch = backbone._shared_prompt_switch
    return switch


def _knows_its_layer(module: nn.Module) -> bool:
    """True if this is an attention module (or a layer): what has to know its place in the cache."""
    return isinstance(getattr(module, "layer_idx", None), int)


class AttentionSwitch:
    """Our attention function in the place of a config's, while a layer runs over a tree.

    mask_window: a sliding window that the model's attention is not told of, or None. told: the
    attention paths that were logged for this model. states: the layers that carry a state, and
    states_alone the places of those that have no attention beside it. probed: whether it was
    looked at, and drawn: whether its forward in training mode was. scored: whether its
    log-probabilities were.
    """

    def __init__(self, config: Any, mask_window: int | None = None) -> None:
        self.config = config
        self.mask_window = mask_window
        self.states = StateLayers((), None)
        self.states_alone: set[int] = set()
        self.displaced: list[str | None] = []
        self.reported: set[str] = set()
        self.probed = False
        self.drawn = False
        self.scored = False

    def watch(self, backbone: nn.Module) -> None:
        self.states = find_state_layers(backbone)
        watch(self.states.modules)
        attending = {m.layer_idx for m in backbone.modules() if attends(m)}
        self.states_alone = self.states.places - attending
        for module in backbone.modules():
            # The attention modules, not the layers: recomputing a layer calls no hooks of its own.
            if _knows_its_layer(module):
                module.register_forward_pre_hook(self._enter, with_kwargs=True)
                # Recomputation may end by an exception; the setting goes back even so.
                module.register_forward_hook(self._leave, with_kwargs=True, always_call=True)

    def _enter(self, _: nn.Module, args: Any, kwargs: dict[str, Any]) -> None:
        if kwargs.get(KEYWORD) is not None:
            self.displaced.append(self.config._attn_implementation)
            self.config._attn_implementation_internal = KEYWORD

    def _leave(self, _: nn.Module, args: Any, kwargs: dict[str, Any], output: Any) -> None:
        if kwargs.get(KEYWORD) is not None:
            self.config._attn_implementation_internal = self.displaced.pop()


def _attend(
    module: nn.Module,
    query_1HTD: Tensor,
    key_1KTD: Tensor,
    value_1KTD: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    sliding_window: int | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    shared_prompt: TreePass | None = None,
    **others: Any,
) -> tuple[Tensor, None]:
    """The attention function that transformers calls, `[1, T, H, D]`."""
    name = type(module).__name__
    if shared_prompt is None:
        raise RuntimeError(f"{name} does not pass keywords on to its attention function")
    if dropout:
        raise ValueError(
            f"{name} has attention dropout {dropout}, which a shared prompt would draw once "
            "instead of once a row: set it to 0"
        )
    if attention_mask is not None and attention_mask.requires_grad:
        # Ours has no gradient. What a layer learns there is equal for all tokens when it starts at
        # zero (Doge), so that the first look at the numbers does not show that it is left out.
        raise ValueError(f"{name} learns a mask of its own, which a shared prompt does not have")
    for keyword in ("sinks", "position_bias", "cache"):
        if others.get(keyword) is not None:
            raise ValueError(f"{name} attends with {keyword}, which a shared prompt does not have")
    if s_aux is not None and s_aux.shape != (query_1HTD.shape[1],):
        raise ValueError(
            f"{name} attends with sinks of shape {tuple(s_aux.shape)}; a shared prompt has one for "
            "each head"
        )
    layer = int(module.layer_idx)  # type: ignore[arg-type]
    query, key, value = to_one_dtype(
        *(x[0].transpose(0, 1) for x in (query_1HTD, key_1KTD, value_1KTD))
    )
    if shared_prompt.kept is not None and layer not in shared_prompt.kept:
        shared_prompt.kept[layer] = (key, value)
    shared_prompt.layers.add(layer)
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    if query.is_cuda:
        sunk = s_aux is not None
        verify_path(shared_prompt.attention, query, key, value, sliding_window, softcap, sinks=sunk)
    outside = None
    if shared_prompt.outside is not None:
        outside_key, outside_value = shared_prompt.outside[layer]
        outside = outside_key, outside_value
    out_THD = shared_prompt.attention(
        query,
        key,
        value,
        scale=scale,
        window=sliding_window,
        softcap=softcap,
        sinks=s_aux,
        outside=outside,
    )
    return out_THD.unsqueeze(0), None


# A new name in transformers' own table, which only a layer that runs over a tree ever asks for.
AttentionInterface.register(KEYWORD, _attend)
