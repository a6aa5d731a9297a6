"""One look at a model before it is trusted: three short rows, shared and repeated.

Reading a model's class and configuration tells most models that cannot share prompts. What no
attribute tells (attention sinks, positions counted by index, a mixing layer nobody declared) shows
in the numbers: the hidden states of three rows that share their beginning must come out of the
packed row as they come out of the plain batch. So must they with every sliding window cut below the
rows' length, or the window is one that attention is not told of; and two plain passes in training
mode must agree, or something draws at random. Six forward passes of a few tokens, once a model.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from memlint_runtime.attention import ForestAttention
from memlint_runtime.integrations import modes
from memlint_runtime.recurrent import reason_of_trial
from memlint_runtime.shared_prompt.head import score_by_head
from memlint_runtime.shared_prompt.layout import build_tree
from memlint_runtime.shared_prompt.models import TreePass, switch_of, through_backbone, trunk_of

__all__ = ["disagreement", "draws_at_random", "head_disagreement", "window_not_told"]

_PREFIX, _BRANCH, _ROWS = 3, 6, 3
# Below the length of the rows, so that a window of so many tokens shows.
_SHRUNK = 4


@torch.no_grad()
def disagreement(model: PreTrainedModel) -> str | None:
    """How the model's hidden states differ when rows share their beginning; None if they do not.

    The model's parameters have to be there whole, not sharded. An error that has nothing to do with
    sharing, such as one of memory, is raised.
    """
    ids = _rows(model)
    with modes.in_mode(model, training=False):
        with _inputs_of_states(model) as inputs:
            try:
                wanted = _plain(model, ids)
            except AttributeError:
                return "its decoder has no hidden states to show"
        try:
            for layers, rows in inputs:
                reason = reason_of_trial(layers, rows, _PREFIX)
                if reason is not None:
                    return reason
            share = _share_of_error(model, ids, wanted)
            if share is None:
                return "its forward does not call its trunk as a whole"
        except modes.NO_REASON:
            raise
        except (RuntimeError, ValueError) as error:
            return str(error)
    if share <= modes.tolerated(wanted.dtype):
        return None
    return f"its hidden states differ by {share:.1%} when rows share their beginning"


@torch.no_grad()
def window_not_told(model: PreTrainedModel) -> int | None:
    """The sliding window in tokens that attention over a tree would ignore, or None."""
    ids = _rows(model)
    switch_of(model)  # it reads the window as it is
    with modes.in_mode(model, training=False), _windows_of(model, _SHRUNK) as windows:
        if not windows:
            return None
        wanted = _plain(model, ids)
        share = _share_of_error(model, ids, wanted)
        if share is None or share <= modes.tolerated(wanted.dtype):
            return None
    return min(windows)


@torch.no_grad()
def draws_at_random(model: PreTrainedModel) -> bool:
    """True if two passes in training mode differ where only the random state does."""
    ids = _rows(model)
    devices = [ids.device] if ids.is_cuda else []
    with modes.in_mode(model, training=True), torch.random.fork_rng(devices):
        outcomes = []
        for seed in (0, 1):
            torch.manual_seed(seed)
            outcomes.append(_plain(model, ids))
    return not torch.equal(*outcomes)


@torch.no_grad()
def head_disagreement(model: PreTrainedModel) -> str | None:
    """How log-probabilities by the output head differ from the model's own; None if they do not.

    A model may do more to its hidden states than multiply them by the head.
    """
    ids = _rows(model)
    with modes.in_mode(model, training=False), torch.autocast(ids.device.type, enabled=False):
        hidden = _plain(model, ids)
        logits = model(input_ids=ids, use_cache=False).logits[:, :-1].float()
        states, targets = hidden[:, :-1].flatten(0, 1), ids[:, 1:].flatten()
        found, _ = score_by_head(model, states, targets)
    wanted = logits.log_softmax(-1).gather(-1, ids[:, 1:, None]).flatten()
    error = float(((found - wanted).abs() / wanted.abs().clamp(min=1.0)).median())
    if error <= modes.tolerated(hidden.dtype):
        return None
    return f"its log-probabilities are not those of its hidden states and head, by {error:.1%}"


@contextmanager
def _inputs_of_states(model: PreTrainedModel) -> Iterator[list[tuple[list[nn.Module], Tensor]]]:
    """Within, noted for each kind of layer with a state: all of them, and the first's inputs."""
    kinds: dict[type, list[nn.Module]] = {}
    for module in switch_of(model).states.modules:
        kinds.setdefault(type(module), []).append(module)
    inputs: list[tuple[list[nn.Module], Tensor]] = []

    def note(module: nn.Module, args: Any, kwargs: dict[str, Any]) -> None:
        hidden = kwargs["hidden_states"] if "hidden_states" in kwargs else args[0]
        inputs.append((kinds[type(module)], hidden))

    handles = [
        layers[0].register_forward_pre_hook(note, with_kwargs=True) for layers in kinds.values()
    ]
    try:
        yield inputs
    finally:
        for handle in handles:
            handle.remove()


def _rows(model: PreTrainedModel) -> Tensor:
    """Token ids of rows that share their beginning, `[rows, prefix + branch]`."""
    draw = modes.plain_ids(model, _PREFIX + _ROWS * _BRANCH)
    branches = draw[_PREFIX:].view(_ROWS, _BRANCH)
    return torch.cat([draw[:_PREFIX].expand(_ROWS, -1), branches], 1)


def _plain(model: PreTrainedModel, ids: Tensor) -> Tensor:
    """Hidden states of the repeated batch, `[rows, columns, D]`."""
    # The caller's autocast would round both, and hide from the tolerance that it does.
    with torch.autocast(ids.device.type, enabled=False):
        mask = torch.ones_like(ids)
        output = trunk_of(model)(input_ids=ids, attention_mask=mask, use_cache=False)
    hidden: Tensor = output.last_hidden_state
    return hidden


def _share_of_error(model: PreTrainedModel, ids: Tensor, wanted: Tensor) -> float | None:
    """The median token's error, relative, of the packed rows against the repeated batch.

    None where the model's forward goes past its trunk, so that nothing of ours was reached.
    """
    mask = torch.ones_like(ids)
    scored = mask.bool()
    scored[:, 0] = False
    tree = build_tree(ids, mask, scored, keep_every_token=True, min_saved_tokens=1)
    shared: list[Tensor] = []

    def keep(output: Any) -> Any:
        shared.append(output.last_hidden_state[0])
        return output

    positions = tree.position.unsqueeze(0)
    tree_pass = TreePass(ForestAttention(tree))
    with (
        torch.autocast(ids.device.type, enabled=False),
        through_backbone(model, tree_pass, keep, trusted=False),
    ):
        # The whole model, which may change what reaches its trunk.
        model(input_ids=tree.take(ids), position_ids=positions)
    if not shared:
        return None
    # A mistaken tree is wrong in every branch.
    return float(modes.relative_errors(shared[0], wanted[tree.row, tree.column]).median())


@contextmanager
def _windows_of(model: PreTrainedModel, tokens: int) -> Iterator[list[int]]:
    """Every sliding window above `tokens` cut to that; yields what they were."""
    holders: dict[int, Any] = {id(module): module for module in model.modules()}
    for module in model.modules():
        config = getattr(module, "config", None)
        if config is not None:
            holders[id(config)] = config
    changed = [
        (holder, holder.sliding_window)
        for holder in holders.values()
        if isinstance(vars(holder).get("sliding_window"), int) and holder.sliding_window > tokens
    ]
    for holder, _ in changed:
        holder.sliding_window = tokens
    try:
        yield [window for _, window in changed]
    finally:
        for holder, window in changed:
            holder.sliding_window = window
