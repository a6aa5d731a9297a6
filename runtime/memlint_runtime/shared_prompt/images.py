"""Prompts that hold images: each image seen once, its tokens a part of the shared prefix.

A vision-language model scatters what its tower makes of the images among the embeddings of the
tokens, finds every token's position (by section, for images), and hands both to a decoder. All of
that stays the model's own, on the padded batch. Two things change: the tower is given every
different image once (`each_image_once`), and what reaches the decoder becomes a packed prefix tree
(`RowsWithImages`).

Two tokens are the same where their ids, positions and, for those that are no text, the embeddings
of their row are: rows with other images share what is before the first.

Refused: images whose tokens see later ones (Gemma 3), since a tree is causal, and decoders that are
handed more than is known here.

B rows, S columns of the padded batch; T packed tokens; D hidden size.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from memlint_runtime.attention import ForestAttention
from memlint_runtime.shared_prompt.layout import PrefixTree, build_tree
from memlint_runtime.shared_prompt.models import TreePass
from memlint_runtime.shared_prompt.runs import Sharing

__all__ = ["CannotPackError", "RowsWithImages", "each_image_once"]


class CannotPackError(ValueError):
    """The model hands its decoder what a packed row cannot have; the message says what."""


@dataclass(eq=False)
class RowsWithImages:
    """Makes the packed row of a padded batch from what reaches the decoder.

    ids, mask, scored: `[B, S]`. embed: token ids to their embeddings as text. every_token: also
    forward tokens that predict nothing. tree, tree_pass: of the batch, once it came by.
    """

    ids: Tensor
    mask: Tensor
    scored: Tensor
    embed: Callable[[Tensor], Tensor]
    sharing: Sharing
    every_token: bool = False
    tree: PrefixTree | None = None
    tree_pass: TreePass | None = None

    def __call__(self, kwargs: dict[str, Any]) -> tuple[TreePass, dict[str, Any]]:
        """The pass and the packed row's keywords. Raises CannotPackError."""
        embedded = kwargs.get("inputs_embeds")
        if embedded is None or embedded.shape[:2] != self.ids.shape:
            raise CannotPackError("its decoder is not given the embeddings of the batch")
        _require_causal(kwargs.get("attention_mask"), self.mask)
        positions = kwargs.get("position_ids")
        tree = build_tree(
            self._identities(embedded, positions),
            self.mask,
            self.scored,
            keep_every_token=self.every_token,
            min_saved_tokens=self.sharing.min_saved_tokens,
        )
        packed = {n: self._packed(tree, n, value, kwargs) for n, value in kwargs.items()}
        if positions is None:
            packed["position_ids"] = tree.position.unsqueeze(0)
        self.tree, self.tree_pass = tree, TreePass(ForestAttention(tree, self.sharing.attention))
        return self.tree_pass, packed

    @torch.no_grad()
    def _identities(self, embedded_BSD: Tensor, positions: Tensor | None) -> Tensor:
        """One number for each token `[B, S]`, equal where tokens are the same."""
        text_BSD = self.embed(self.ids).to(embedded_BSD.dtype)
        seen_BS = (text_BSD != embedded_BSD).any(-1) & self.mask
        rows = [embedded_BSD[row][seen_BS[row]] for row in range(len(self.ids))]
        images = torch.tensor(_first_equal(rows), device=self.ids.device)
        parts = [self.ids, torch.where(seen_BS, images.unsqueeze(1) + 1, 0)]
        if positions is not None:
            expanded = positions.expand(*positions.shape[:-2], *self.ids.shape)
            parts += list(expanded.reshape(-1, *self.ids.shape))
        table = torch.stack([part.to(torch.long) for part in parts], -1)
        _, numbers = torch.unique(table.flatten(0, 1), dim=0, return_inverse=True)
        identities: Tensor = numbers.view(self.ids.shape)
        return identities

    def _packed(self, tree: PrefixTree, name: str, value: Any, kwargs: dict[str, Any]) -> Any:
        if name == "attention_mask":
            return None
        if name == "deepstack_visual_embeds" and value is not None:
            marked = kwargs["visual_pos_masks"]
            index = marked.flatten().cumsum(0).view(marked.shape) - 1
            chosen = index[tree.row, tree.column][marked[tree.row, tree.column]]
            return [layer[chosen] for layer in value]
        if isinstance(value, Tensor) and value.dim() > 1:
            rows, columns = self.ids.shape
            if name == "position_ids":
                expanded = value.expand(*value.shape[:-2], rows, columns)
                return expanded[..., tree.row, tree.column].unsqueeze(-2)
            if value.shape[:2] == (rows, columns):
                return value[tree.row, tree.column].unsqueeze(0)
        if _holds_tensors(value):
            raise CannotPackError(f"its decoder is given {name}, which is no value of each token")
        return value


def _require_causal(mask: Any, real_BS: Tensor) -> None:
    """Raises CannotPackError where some token sees a later one, or one that is hidden from it is
    no farther than one that it may see: a prefix tree knows nothing but order and a window.

    mask: what the decoder is given, `[B or 1, heads, S, S]`, boolean or added to the scores; or
    such masks by kind of layer. real_BS: the tokens that are no padding.
    """
    if isinstance(mask, dict):
        for one in mask.values():
            _require_causal(one, real_BS)
        return
    if mask is None or (isinstance(mask, Tensor) and mask.dim() == 2):
        return
    if not isinstance(mask, Tensor):
        raise CannotPackError("its decoder is given a mask that cannot be read")
    seen_BHSS = (mask if mask.dtype == torch.bool else mask == 0).expand(len(real_BS), -1, -1, -1)
    # Row by row, since a number for each pair of tokens is larger than the mask.
    for seen_HSS, real_S in zip(seen_BHSS, real_BS.to(mask.device), strict=True):
        place = real_S.int().cumsum(0, dtype=torch.int32)
        back_SS = place.unsqueeze(1) - place
        real_SS = real_S.unsqueeze(1) & real_S
        seen_SS, all_seen_SS = seen_HSS.any(0) & real_SS, seen_HSS.all(0) | ~real_SS
        if bool((seen_SS & (back_SS < 0)).any()):
            raise CannotPackError(
                "its images' tokens see each other both ways, and a prefix tree is causal"
            )
        hidden = back_SS[~all_seen_SS & (back_SS >= 0)]
        if hidden.numel() and bool(hidden.min() <= torch.where(seen_SS, back_SS, 0).max()):
            raise CannotPackError("its mask hides earlier tokens otherwise than by a window")


def _holds_tensors(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return any(_holds_tensors(one) for one in value)
    return isinstance(value, Tensor) and value.dim() > 0


@contextmanager
def each_image_once(model: PreTrainedModel) -> Iterator[None]:
    """Within, the model's tower is given each different image once, however often it comes.

    Exact: what it makes of an image is handed out to every place, and gradients are summed.
    """
    inner: Any = model.base_model
    own = getattr(inner, "get_image_features", None)
    if own is None or "get_image_features" in vars(inner):
        yield
        return
    names = [name for name in inspect.signature(own).parameters if name != "kwargs"]

    def once(*args: Any, **kwargs: Any) -> Any:
        given = dict(zip(names, args, strict=False)) | kwargs
        images = _images_in(given)
        first = _first_equal(images) if images else []
        different = sorted(set(first))
        if len(different) == len(images):
            return own(*args, **kwargs)
        features = own(**_chosen(given, images, different))
        handed = _hand_out(features, [different.index(i) for i in first], len(different))
        return own(*args, **kwargs) if handed is None else handed

    vars(inner)["get_image_features"] = once
    try:
        yield
    finally:
        del vars(inner)["get_image_features"]


_Image = tuple[Tensor, ...]


def _images_in(given: dict[str, Any]) -> list[_Image]:
    """All that belongs to each image: its pixels, and its row of every other input."""
    pixels = given.get("pixel_values")
    if not isinstance(pixels, Tensor):
        return []
    others = [v for n, v in given.items() if isinstance(v, Tensor) and n != "pixel_values"]
    grid = given.get("image_grid_thw")
    sizes = [1] * len(pixels) if grid is None else grid.prod(-1).tolist()
    if sum(sizes) != len(pixels) or any(len(other) != len(sizes) for other in others):
        return []
    pieces = torch.split(pixels, sizes)
    return [(piece, *(other[i] for other in others)) for i, piece in enumerate(pieces)]


def _chosen(given: dict[str, Any], images: Sequence[_Image], which: list[int]) -> dict[str, Any]:
    chosen = dict(given)
    for name, value in given.items():
        if isinstance(value, Tensor):
            chosen[name] = value[torch.tensor(which, device=value.device)]
    if given.get("image_grid_thw") is not None:
        chosen["pixel_values"] = torch.cat([images[i][0] for i in which])
    return chosen


def _first_equal(values: Sequence[Tensor | _Image]) -> list[int]:
    """For each value the place of the first that is equal to it, bit by bit."""
    result: list[int] = []
    for i, value in enumerate(values):
        known = (j for j in dict.fromkeys(result) if _equal(values[j], value))
        result.append(next(known, i))
    return result


def _equal(a: Tensor | _Image, b: Tensor | _Image) -> bool:
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return a.shape == b.shape and torch.equal(a, b)
    return len(a) == len(b) and all(_equal(x, y) for x, y in zip(a, b, strict=True))


def _hand_out(features: Any, to: list[int], images: int) -> Any:
    """The tower's outputs for every place, in the form in which they came; None if not known."""
    came = getattr(features, "pooler_output", None)
    pooled = _spread(came, to, images)
    deep: Any = getattr(features, "deepstack_features", None)
    by_layer = [_spread(_by_image(layer, came), to, images) for layer in deep or ()]
    if pooled is None or any(layer is None for layer in by_layer):
        return None
    features.pooler_output = pooled
    if deep is not None:
        features.deepstack_features = list(map(_joined_again, deep, by_layer))
    return features


def _by_image(layer: Any, pooled: Any) -> Any:
    """A layer's features split as the pooled ones are: transformers 5.17 leaves them joined."""
    if isinstance(pooled, list | tuple) and isinstance(layer, Tensor):
        sizes = [len(image) for image in pooled]
        if sum(sizes) == len(layer):
            return torch.split(layer, sizes)
    return layer


def _joined_again(layer: Any, spread: Any) -> Any:
    """Features by image, joined where the layer's came joined."""
    return torch.cat(spread) if isinstance(layer, Tensor) and isinstance(spread, tuple) else spread


def _spread(value: Any, to: list[int], images: int) -> Any:
    if isinstance(value, Tensor) and value.dim() > 2 and len(value) == images:
        return value[torch.tensor(to, device=value.device)]
    if isinstance(value, list | tuple) and len(value) == images:
        return type(value)(value[i] for i in to)
    return None
