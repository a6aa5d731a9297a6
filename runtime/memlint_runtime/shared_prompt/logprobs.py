"""Log-probabilities of completions, every prompt forwarded once: `shared_prompt_logprobs`.

Rows that begin alike share their prefix (`layout`), whoever they belong to; attention over the tree
is exact (`attention`), gradients go through the prompt, activation checkpointing, PEFT, DDP and
FSDP work as in any forward pass of the model, and the logits are never made.

Against the repeated batch, tokens through the model fall from G(P + C) to P + G(C - 1), and
checkpointed activations with them. Cost: the tree is made on the CPU, which has to
wait for the token ids.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from types import MethodType
from typing import Any, Literal, NamedTuple, overload

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from memlint_runtime.fake_numbers import numbers_of
from memlint_runtime.integrations.modes import has_whole_parameters, reduces_in_order
from memlint_runtime.shared_prompt.head import score_by_head
from memlint_runtime.shared_prompt.models import (
    causal_lm_inside,
    dropout_inside,
    switch_of,
    through_backbone,
    unsupported_reason,
    without_reentrant_checkpointing,
)
from memlint_runtime.shared_prompt.probe import (
    disagreement,
    draws_at_random,
    head_disagreement,
    window_not_told,
)
from memlint_runtime.shared_prompt.router import load_balancing_loss
from memlint_runtime.shared_prompt.runs import PaddedRows, Scored, Sharing, TreeRun, require_sharing
from memlint_runtime.shared_prompt.scoring import score_rows

__all__ = [
    "SharedPromptScores", "can_go_in_phases", "graph_kept", "reason_against", "report_paths",
    "shared_prefix_logprobs", "shared_prompt_logprobs",
]  # fmt: skip

logger = logging.getLogger("memlint_runtime.shared_prompt")

# In what a model's switch remembers to have told.
_OVER_BUDGET = "over token_budget"


class SharedPromptScores(NamedTuple):
    """logprobs, entropies: `[rows, C]`, float32, zero where the completion mask is. aux_loss: the
    routers' load-balancing loss, each token counted once for each row, or None."""

    logprobs: Tensor
    entropies: Tensor
    aux_loss: Tensor | None


@overload
def shared_prompt_logprobs(
    model: nn.Module, prompt_ids: Tensor, prompt_mask: Tensor, completion_ids: Tensor,
    completion_mask: Tensor,
    *, temperature: float = ..., entropy: Literal[False] = ..., aux_loss: Literal[False] = ...,
    sharing: Sharing | None = ...,
) -> Tensor: ...  # fmt: skip


@overload
def shared_prompt_logprobs(
    model: nn.Module, prompt_ids: Tensor, prompt_mask: Tensor, completion_ids: Tensor,
    completion_mask: Tensor,
    *, temperature: float = ..., entropy: Literal[True], aux_loss: Literal[False] = ...,
    sharing: Sharing | None = ...,
) -> tuple[Tensor, Tensor]: ...  # fmt: skip


@overload
def shared_prompt_logprobs(
    model: nn.Module, prompt_ids: Tensor, prompt_mask: Tensor, completion_ids: Tensor,
    completion_mask: Tensor,
    *, temperature: float = ..., entropy: bool = ..., aux_loss: Literal[True],
    sharing: Sharing | None = ...,
) -> SharedPromptScores: ...  # fmt: skip


def shared_prompt_logprobs(
    model: nn.Module,
    prompt_ids: Tensor,
    prompt_mask: Tensor,
    completion_ids: Tensor,
    completion_mask: Tensor,
    *,
    temperature: float = 1.0,
    entropy: bool = False,
    aux_loss: bool = False,
    sharing: Sharing | None = None,
) -> Tensor | tuple[Tensor, Tensor] | SharedPromptScores:
    """Log-probability of every completion token, `[rows, C]` in float32, with gradient.

    Args:
        model: a transformers causal language model, alone or wrapped in PEFT, DDP or FSDP.
        prompt_ids, prompt_mask: `[rows, P]`; padding may be on either side and does not count in
            positions. A prompt stands in as many rows as it has completions; which rows belong
            together is found from the tokens.
        completion_ids, completion_mask: `[rows, C]`, padding on the right only. Where the mask is 0
            the result is 0.
        temperature: divides the logits.
        entropy: also return the entropy of each token's distribution, `[rows, C]`, as a pair.
        aux_loss: return `SharedPromptScores`, with the load-balancing loss of a mixture of experts
            as the repeated batch would count it.
        sharing: token budget, attention path, least saving; by default no bound and all chosen.

    Equal to scoring the repeated batch, values and gradients, up to rounding; positions count each
    row's own tokens. Where a script counts padding on the left, models with learned absolute
    positions (GPT-2) or rotary ones that depend on the batch's length come out as without padding.

    Raises ValueError for a model that cannot share prompts (with the reason), for dropout above 0
    in training mode, and for inputs that do not fit; TypeError for other kinds of `sharing`.
    """
    _check_shapes(prompt_ids, prompt_mask, completion_ids, completion_mask)
    _check_padding(completion_mask)
    completion_mask = completion_mask.bool()
    rows = PaddedRows(
        torch.cat([prompt_ids, completion_ids], 1),
        torch.cat([prompt_mask.bool(), completion_mask], 1),
        torch.cat([torch.zeros_like(prompt_mask.bool()), completion_mask], 1),
    )
    found = _scores(model, rows, temperature, sharing, aux_loss=aux_loss)
    logprobs, entropies = (value[:, prompt_ids.shape[1] :] for value in found[:2])
    if aux_loss:
        return SharedPromptScores(logprobs, entropies, found.aux_loss)
    return (logprobs, entropies) if entropy else logprobs


def shared_prefix_logprobs(
    model: nn.Module,
    input_ids: Tensor,
    attention_mask: Tensor | None = None,
    *,
    scored: Tensor | None = None,
    temperature: float = 1.0,
    sharing: Sharing | None = None,
) -> Tensor:
    """Log-probability of every token of rows that begin alike, `[rows, S]` in float32.

    For any rows: turns of one conversation, branches of a search, candidates of a reward model,
    rollouts that use tools. What rows have in common at their beginning, at any depth, is found
    from the tokens and goes through the model once; each row's values stand in the row.

    Args:
        model: as in `shared_prompt_logprobs`; so are temperature, sharing, and what is refused.
        input_ids, attention_mask: `[rows, S]`; padding may be anywhere, and does not count in
            positions. Without a mask there is none.
        scored: `[rows, S]`, the tokens whose log-probability is wanted; by default all but each
            row's first. Elsewhere the result is 0. Tokens after a row's last scored one are not
            forwarded. A token budget parts only rows that begin with tokens that are not scored.

    Equal to the plain pass over all rows, values and gradients, up to rounding.
    """
    if attention_mask is None:
        attention_mask = torch.ones_like(input_ids)
    mask = attention_mask.bool()
    if scored is None:
        scored = mask & (mask.cumsum(1) > 1)
    return _scores(model, PaddedRows(input_ids, mask, scored.bool()), temperature, sharing)[0]


def _scores(
    model: nn.Module,
    rows: PaddedRows,
    temperature: float,
    sharing: Sharing | None,
    *,
    aux_loss: bool = False,
) -> SharedPromptScores:
    """Of every token, `[rows, S]`."""
    sharing = Sharing() if sharing is None else sharing
    require_sharing(sharing)
    inside = causal_lm_inside(model)
    reason = reason_against(inside, training=model.training) or _reason_of_head(inside)
    if reason is not None:
        raise ValueError(f"this model cannot share prompts: {reason}")
    routed: list[tuple[Tensor, ...]] = []
    in_phases = not aux_loss and can_go_in_phases(inside)
    kept_graph = graph_kept(inside, sharing, in_phases=in_phases)

    def inside_forward(forward: Any, kwargs: dict[str, Any]) -> tuple[Tensor, ...]:
        def run(one: TreeRun) -> tuple[Tensor, ...]:
            scores: list[tuple[Tensor, Tensor]] = []

            def score(output: Any) -> Any:
                hidden_TD = output.last_hidden_state[0]
                # With layers on several devices, the last of them is not where the tokens are.
                place = hidden_TD.device
                picked = hidden_TD[one.tree.predicting.to(place)]
                targets = one.targets.to(place)
                logprobs, entropies = score_by_head(inside, picked, targets, temperature)
                scores.append((logprobs.to(one.ids.device), entropies.to(one.ids.device)))
                if aux_loss:
                    routed.append(output.router_logits)
                return output

            none = torch.empty(0, dtype=torch.long, device=one.ids.device)
            with kept_graph(), through_backbone(inside, one.tree_pass, score):
                forward(
                    **{**kwargs, "input_ids": one.ids, "position_ids": one.positions},
                    logits_to_keep=none,  # the model's own head sees no token
                    **({"output_router_logits": True} if aux_loss else {}),
                )
            return scores[0]

        phases = inside if in_phases else None
        scored = score_rows(rows, sharing, run, keep_every_token=aux_loss, model=phases)
        report_paths(inside, scored, sharing, in_phases=in_phases)
        if not aux_loss:
            return scored.values
        counts = [tree.rows_through for tree in scored.trees]
        return *scored.values, load_balancing_loss(inside, routed, counts)

    with _forward_replaced(inside, inside_forward):
        # Wrappers see one forward pass of the model and do what they do around any.
        result = model(input_ids=rows.ids[:1])
    return SharedPromptScores(result[0], result[1], result[2] if aux_loss else None)


def reason_against(model: PreTrainedModel, *, training: bool) -> str | None:
    """Why prompts cannot be shared in this model, by its kind, its dropouts and a first look at its
    numbers; None where they can."""
    reason = unsupported_reason(model)
    if reason is not None:
        return reason
    dropped = dropout_inside(model) if training else None
    if dropped is not None:
        return (
            f"a group would draw its dropout once instead of once a row, but {dropped}: set its "
            "dropouts to 0 in the model's config (attention_dropout=0.0) and lora_dropout=0.0; "
            "disable_dropout=True reaches dropout modules only"
        )
    if not has_whole_parameters(model):
        return None
    switch = switch_of(model)
    if not switch.probed:
        reason = disagreement(model)
        if reason is not None:
            return reason
        switch.mask_window = switch.mask_window or window_not_told(model)
        switch.probed = True
    if training and not switch.drawn:
        if draws_at_random(model):
            return (
                "its forward draws at random in training mode, which a group would do once instead "
                "of once a row: set its dropouts to 0 in the model's config"
            )
        switch.drawn = True
    return None


def _reason_of_head(model: PreTrainedModel) -> str | None:
    """Why log-probabilities cannot be taken from hidden states and head, or None."""
    switch = switch_of(model)
    if switch.scored or not has_whole_parameters(model):
        return None
    reason = head_disagreement(model)
    switch.scored = reason is None
    return reason


def graph_kept(
    model: PreTrainedModel, sharing: Sharing, *, in_phases: bool, kept_prompts: bool = False
) -> Callable[[], AbstractContextManager[None]]:
    """What a forward pass runs in, so that two phases find a graph in what they take from it.

    kept_prompts: whether prompts are kept for further calls, which takes two phases as well."""
    if not in_phases or (sharing.token_budget is None and not kept_prompts):
        return nullcontext
    return partial(without_reentrant_checkpointing, model)


def can_go_in_phases(model: PreTrainedModel) -> bool:
    """True if the model's modules may be called outside of the one pass that its wrapper knows of:
    not where parameters are sharded, since gathering and freeing them follows that pass; nor where
    gradients must be ready in one order in all processes, of which each may hold other groups."""
    return has_whole_parameters(model, fakes=True) and not reduces_in_order(model)


def report_paths(
    model: PreTrainedModel, scored: Scored, sharing: Sharing, *, in_phases: bool
) -> None:
    """Log the choice of attention and rho: at level INFO when the choice is new, else DEBUG.

    Once, as a warning, that a token budget was not kept. Nothing where nothing was forwarded.
    """
    if not scored.trees:
        return
    switch = switch_of(model)
    largest = max(tree.num_tokens for tree in scored.trees)
    over = sharing.token_budget is not None and largest > sharing.token_budget
    if over and not in_phases and _OVER_BUDGET not in switch.reported:
        switch.reported.add(_OVER_BUDGET)
        logger.warning(
            "a group of %d tokens is forwarded whole, over token_budget=%d: it cannot be parted "
            "where parameters are sharded over processes, DeepSpeed's ZeRO reduces gradients, or a "
            "router's loss is wanted. Make micro-batches smaller",
            largest,
            sharing.token_budget,
        )
    new = scored.paths - switch.reported
    switch.reported |= new
    logger.log(
        logging.INFO if new else logging.DEBUG,
        "shared prompts: %d tokens forwarded for %d, rho %.2f, attention %s",
        scored.packed_tokens,
        scored.repeated_tokens,
        scored.rho,
        "+".join(sorted(scored.paths)),
    )


@contextmanager
def _forward_replaced(model: PreTrainedModel, inner: Any) -> Iterator[None]:
    """`model.forward` becomes `inner(the original forward, keywords)` within."""
    had = model.__dict__.get("forward")
    original = model.forward

    def forward(self: PreTrainedModel, *args: Any, **kwargs: Any) -> Any:
        return inner(original, {k: v for k, v in kwargs.items() if v is not None})

    model.forward = MethodType(forward, model)
    try:
        yield
    finally:
        if had is None:
            del model.forward
        else:
            model.forward = had


def _check_shapes(
    prompt_ids: Tensor, prompt_mask: Tensor, completion_ids: Tensor, completion_mask: Tensor
) -> None:
    shapes = [tuple(x.shape) for x in (prompt_ids, prompt_mask, completion_ids, completion_mask)]
    fits = shapes[::2] == shapes[1::2] and len(shapes[0]) == len(shapes[2]) == 2
    fits = fits and shapes[0][0] == shapes[2][0]
    if not fits:
        raise ValueError(
            "prompt ids and mask must be [rows, P], completion ids and mask [rows, C], got "
            f"{shapes[0]}, {shapes[1]}, {shapes[2]} and {shapes[3]}"
        )


def _check_padding(completion_mask: Tensor) -> None:
    mask = completion_mask.bool()
    late = numbers_of((mask[:, 1:] & ~mask[:, :-1]).any(1))
    if late.any():
        raise ValueError(
            f"completions are padded on the right only, but row {late.argmax()} of the "
            "completion mask has a token after padding. To leave a token out of the loss, mask its "
            "log-probability"
        )
