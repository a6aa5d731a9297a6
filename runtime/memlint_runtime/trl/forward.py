"""A model whose scoring forward shares prompts: where TRL's trainers meet the prefix tree.

TRL gives its models a fused head and asks everything of it in one way, for policy, old and
reference log-probabilities alike: `model(input_ids, attention_mask, labels, fused_lm_head=True)`.
`share_prompts` wraps that forward of one model. Such a call becomes a packed prefix tree; TRL's own
head then scores exactly the hidden states that predict a label, and the results return to their
padded places. So temperature, casts, sharded heads and every statistic are TRL's, and a trainer
needs no other change. Any other call, generation above all, goes through untouched.

Cost: nothing where no call scores; else see `shared_prompt`.

B rows, S columns of the padded batch; T packed tokens; N scored tokens.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from types import MethodType
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from trl.trainer.utils import FusedCausalLMOutput

from memlint_runtime.integrations import Patch
from memlint_runtime.integrations.patching import bound_to
from memlint_runtime.shared_prompt import Sharing
from memlint_runtime.shared_prompt.images import CannotPackError
from memlint_runtime.shared_prompt.kept import KeptPrompts
from memlint_runtime.shared_prompt.layout import PrefixTree
from memlint_runtime.shared_prompt.logprobs import can_go_in_phases, graph_kept, report_paths
from memlint_runtime.shared_prompt.models import causal_lm_inside, through_backbone
from memlint_runtime.shared_prompt.router import load_balancing_loss
from memlint_runtime.shared_prompt.runs import PaddedRows, Scored, TreeRun
from memlint_runtime.shared_prompt.scoring import score_rows
from memlint_runtime.trl.images import IMAGE_INPUTS, score_with_images

__all__ = ["TokenCount", "kept_prompts_of", "prompts_kept_apart", "share_for", "share_prompts"]

logger = logging.getLogger("memlint_runtime.trl")

# On a model that scores with shared prompts.
_MARK = "memlint_shared_scoring"
# On the forward that does it.
_SHARES = "memlint_shares_prompts"

_UNDERSTOOD = {
    "input_ids", "attention_mask", "labels", "fused_lm_head", "use_cache", "output_router_logits",
    "num_items_in_batch", "return_dict",
}  # fmt: skip
# Of a padded batch's tokens, the share that has to be saved: less does not pay for packing them.
_LEAST_SAVED = 0.02
_PER_TOKEN = ("log_probs", "entropy", "log_sum_sq_probs", "mean_logits", "is_top1")


@dataclass(slots=True)
class TokenCount:
    """Tokens that went through the model, and those that the repeated prompts would have been."""

    forwarded: int = 0
    repeated: int = 0


@dataclass(eq=False)
class _SharedScoring:
    """How a model scores: on the model itself, so that a copy of it scores by itself.

    repeats: whether prompts with images are repeated, since the model was found unable. names: the
    values of each token that the head gave last, which later calls may be handed as well.
    """

    sharing: Sharing
    count: TokenCount
    reported: set[str] = field(default_factory=set)
    prompts: KeptPrompts = field(default_factory=KeptPrompts)
    repeats: bool = False
    names: list[str] = field(default_factory=list)


def share_prompts(model: PreTrainedModel, sharing: Sharing, count: TokenCount) -> None:
    """From now on, `model` scores with every prompt forwarded once; `count` is kept up to date.

    `model` has TRL's fused head. Doing it again changes nothing, unless another trainer has given
    the model a head since; `memlint_runtime.undo` undoes it.
    """
    if _MARK in vars(model) and getattr(model.forward, _SHARES, False):
        return
    patch = Patch(model, "the model shares prompts")
    scoring = _SharedScoring(sharing, count)
    patch.on_undo(partial(_warn_of_owed, scoring))
    patch.replace(model, _MARK, scoring)
    patch.replace(model, "forward", bound_to(model, "forward", _sharing))


def share_for(model: PreTrainedModel, sharing: Sharing, count: TokenCount) -> None:
    """From now on, a model that shares prompts does so in this way: another trainer of it may have
    set its own."""
    scoring = vars(model).get(_MARK)
    if isinstance(scoring, _SharedScoring):
        scoring.sharing, scoring.count = sharing, count


def _warn_of_owed(scoring: _SharedScoring) -> None:
    if scoring.prompts.owed:
        logger.warning(
            "sharing prompts was undone amid an optimizer step, whose gradients are not complete "
            "now: set them to zero and begin the step again"
        )


def kept_prompts_of(model: nn.Module | None) -> KeptPrompts | None:
    """What a model that shares prompts keeps of them between calls; None for any other model."""
    scoring = None if model is None else vars(causal_lm_inside(model)).get(_MARK)
    return scoring.prompts if isinstance(scoring, _SharedScoring) else None


@contextmanager
def prompts_kept_apart(model: nn.Module) -> Iterator[KeptPrompts]:
    """Within, a model that shares prompts keeps others than those of the step that it is in."""
    scoring: _SharedScoring = vars(causal_lm_inside(model))[_MARK]
    own, scoring.prompts = scoring.prompts, KeptPrompts()
    try:
        yield scoring.prompts
    finally:
        scoring.prompts = own


def _sharing(own: Callable[..., Any]) -> Callable[..., Any]:
    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        scoring: _SharedScoring | None = vars(self).get(_MARK)
        given = {name: value for name, value in kwargs.items() if value is not None}
        if scoring is None or args or not given.get("fused_lm_head") or "labels" not in given:
            return own(self, *args, **kwargs)
        others = given.keys() - _UNDERSTOOD
        if others and (not others <= IMAGE_INPUTS or scoring.repeats):
            if not others <= scoring.reported:
                scoring.reported.update(others)
                logger.warning(
                    "prompts are repeated in forward passes that have inputs beside the tokens: %s",
                    ", ".join(sorted(others)),
                )
            return own(self, *args, **kwargs)
        try:
            return _score(self, MethodType(own, self), given, scoring)
        except CannotPackError as reason:
            scoring.repeats = True
            scoring.reported.update(others)
            logger.warning("prompts with images are repeated as TRL does: %s", reason)
            return own(self, *args, **kwargs)

    setattr(forward, _SHARES, True)
    return forward


def _score(
    model: PreTrainedModel, original: Any, given: dict[str, Any], scoring: _SharedScoring
) -> FusedCausalLMOutput:
    """What `original` returns for the padded batch, by way of the tree."""
    sharing, count = scoring.sharing, scoring.count
    ids_BS, labels_BS = given["input_ids"], given["labels"]
    mask_BS = given.get("attention_mask", torch.ones_like(ids_BS)).bool()
    scored_BS = labels_BS != -100
    scored_BS[:, 0] = False  # no token comes before it
    config = model.config.get_text_config()
    balanced = bool(
        given.get("output_router_logits") or getattr(config, "output_router_logits", False)
    )
    routed: list[tuple[Tensor, ...]] = []
    if given.keys() & IMAGE_INPUTS:
        scored, names, routed = score_with_images(
            model, original, given, sharing, _PER_TOKEN, balanced=balanced
        )
        report_paths(model, scored, sharing, in_phases=False)
        return _output(model, given, scored, names, routed, scored_BS, count, balanced=balanced)
    in_phases = not balanced and can_go_in_phases(model)
    prompts = scoring.prompts if in_phases and scoring.prompts.expected else None
    rows = PaddedRows(ids_BS, mask_BS, scored_BS)
    whole = rows.tree(sharing, keep_every_token=balanced) if prompts is None else None
    if whole is not None and _saves_nothing(whole, ids_BS.numel(), sharing):
        count.forwarded += whole.repeated_tokens
        count.repeated += whole.repeated_tokens
        logger.debug("%d tokens share nothing: forwarded as they come", whole.repeated_tokens)
        output: FusedCausalLMOutput = original(**given)
        return output
    kept_graph = graph_kept(model, sharing, in_phases=in_phases, kept_prompts=prompts is not None)

    def run(one: TreeRun) -> tuple[Tensor, ...]:
        def predictors_only(output: Any) -> Any:
            if balanced:
                routed.append(output.router_logits)
            # With layers on several devices, the last of them is not where the tokens are.
            hidden = output.last_hidden_state
            output.last_hidden_state = hidden[:, one.tree.predicting.to(hidden.device)]
            return output

        with kept_graph(), through_backbone(model, one.tree_pass, predictors_only):
            outputs = original(
                input_ids=one.ids,
                position_ids=one.positions,
                shift_labels=one.targets.unsqueeze(0),
                fused_lm_head=True,
                **({"output_router_logits": True} if balanced else {}),
            )
        names = [name for name in _PER_TOKEN if getattr(outputs, name) is not None]
        scoring.names = names
        return tuple(getattr(outputs, name)[0].to(one.ids.device) for name in names)

    scored = score_rows(
        rows,
        sharing,
        run,
        keep_every_token=balanced,
        model=model if in_phases else None,
        prompts=prompts,
        whole=whole,
    )
    report_paths(model, scored, sharing, in_phases=in_phases)
    names = scoring.names
    return _output(model, given, scored, names, routed, scored_BS, count, balanced=balanced)


def _saves_nothing(tree: PrefixTree, padded_tokens: int, sharing: Sharing) -> bool:
    """True if a batch is forwarded as well row by row, `padded_tokens` in all: it shares next to
    nothing and has next to no padding. Not where attention is chosen or a budget would be broken.
    """
    if sharing.attention is not None or padded_tokens > (sharing.token_budget or padded_tokens):
        return False
    return tree.num_tokens > (1 - _LEAST_SAVED) * padded_tokens


def _output(
    model: PreTrainedModel,
    given: dict[str, Any],
    scored: Scored,
    names: list[str],
    routed: list[tuple[Tensor, ...]],
    scored_BS: Tensor,
    count: TokenCount,
    *,
    balanced: bool,
) -> FusedCausalLMOutput:
    """TRL's output for the padded batch, from the values by place."""
    config = model.config.get_text_config()
    count.forwarded += scored.packed_tokens
    count.repeated += scored.repeated_tokens

    per_token = {n: value[:, 1:] for n, value in zip(names, scored.values, strict=True)}
    items = given.get("num_items_in_batch", scored_BS.sum().clamp(min=1))
    loss = -per_token["log_probs"].sum() / items
    aux_loss = None
    if balanced:
        aux_loss = load_balancing_loss(model, routed, [tree.rows_through for tree in scored.trees])
        loss = loss + getattr(config, "router_aux_loss_coef", 0.0) * aux_loss
    return FusedCausalLMOutput(
        loss=loss, **per_token, label_mask=scored_BS[:, 1:], aux_loss=aux_loss
    )
