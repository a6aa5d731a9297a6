"""Scoring of batches whose prompts hold images, each prompt forwarded once; see `trl.forward`.

The padded batch goes to the model as TRL gives it, images and all; between its embeddings and its
decoder it becomes a packed row. TRL's head is given the hidden states that predict a label, and the
labels in the same order, which is the batch's own. A token budget is not kept: a batch goes whole.

B rows, S columns of the padded batch; N scored tokens.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

from torch import Tensor
from transformers import PreTrainedModel

from memlint_runtime.shared_prompt import Sharing
from memlint_runtime.shared_prompt.images import RowsWithImages, each_image_once
from memlint_runtime.shared_prompt.models import through_backbone
from memlint_runtime.shared_prompt.runs import Scored

__all__ = ["IMAGE_INPUTS", "ScoredImages", "score_with_images"]

# What TRL's trainers give a model beside its tokens where prompts hold images.
IMAGE_INPUTS = {
    "pixel_values", "image_grid_thw", "pixel_attention_mask", "spatial_shapes", "image_sizes",
    "token_type_ids", "mm_token_type_ids", "image_position_ids",
}  # fmt: skip


class ScoredImages(NamedTuple):
    """scored: values `[B, S]` by place, and the tree. names: the values'. routed: router logits."""

    scored: Scored
    names: list[str]
    routed: list[tuple[Tensor, ...]]


def score_with_images(
    model: PreTrainedModel,
    original: Any,
    given: dict[str, Any],
    sharing: Sharing,
    per_token: tuple[str, ...],
    *,
    balanced: bool,
) -> ScoredImages:
    """Score a padded batch with its images. Raises CannotPackError where the model cannot."""
    ids_BS = given["input_ids"]
    mask_BS = given.get("attention_mask", ids_BS.new_ones(ids_BS.shape)).bool()
    scored_BS = given["labels"] != -100
    scored_BS[:, 0] = False  # no token comes before it
    rows = RowsWithImages(
        ids_BS,
        mask_BS,
        scored_BS,
        partial(_embedded_as_text, model.get_input_embeddings()),
        sharing,
        every_token=balanced,
    )
    routed: list[tuple[Tensor, ...]] = []

    def predictors_only(output: Any) -> Any:
        assert rows.tree is not None
        if balanced:
            routed.append(output.router_logits)
            # The head would weigh the packed row's by the padded batch's mask. It is given no
            # routers to balance, and their loss is computed from these. (None as the attribute's
            # value would leave the item, which is what some models read.)
            output = type(output)(**{n: v for n, v in output.items() if n != "router_logits"})
        hidden = output.last_hidden_state
        output.last_hidden_state = hidden[:, rows.tree.predictor.to(hidden.device)]
        return output

    inputs = {n: v for n, v in given.items() if n in IMAGE_INPUTS or n == "attention_mask"}
    with each_image_once(model), through_backbone(model, rows, predictors_only):
        outputs = original(
            input_ids=ids_BS,
            **inputs,
            # In the order of a tree's predictors: by row, then by column.
            shift_labels=ids_BS[scored_BS].unsqueeze(0),
            fused_lm_head=True,
            **({"output_router_logits": True} if balanced else {}),
        )
    tree, tree_pass = rows.tree, rows.tree_pass
    if tree is None or tree_pass is None:
        raise RuntimeError(f"{type(model).__name__} never called the decoder of its tokens")
    names = [name for name in per_token if getattr(outputs, name) is not None]
    found = (getattr(outputs, name)[0].to(ids_BS.device) for name in names)
    values = tuple(one.new_zeros(scored_BS.shape).index_put((scored_BS,), one) for one in found)
    return ScoredImages(
        Scored(values, (tree,), frozenset(tree_pass.attention.taken)), names, routed
    )


def _embedded_as_text(embeddings: Any, ids_BS: Tensor) -> Tensor:
    """`[B, S, D]`; ids of images may lie beyond the vocabulary, and get any other token's."""
    count = getattr(embeddings, "num_embeddings", None)
    embedded: Tensor = embeddings(ids_BS if count is None else ids_BS.clamp(max=count - 1))
    return embedded
