"""One look at a model before it is trusted: three short rows, shared and repeated.

Reading a model's class and configuration tells most models that cannot share prompts. What no
attribute tells (attention sinks, positions counted by index, a mixing layer nobody declared) shows
in the numbers: the hidden states of three rows that share their beginning must come out of the
packed row as they come out of the plain batch. Two forward passes of a few tokens, once a model.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from memlint_runtime.shared_prompt.attention import TreeAttention
from memlint_runtime.shared_prompt.layout import build_tree
from memlint_runtime.shared_prompt.models import TreePass, through_backbone

__all__ = ["disagreement"]

_PREFIX, _BRANCH, _ROWS = 3, 6, 3
# Of a token's hidden state, relative. A few tokens may be off by more where an expert was chosen by
# a hair, so that the median decides; a mistaken tree is wrong in every branch.
_TOLERATED = {torch.float64: 1e-6, torch.float32: 1e-3, torch.float16: 0.05, torch.bfloat16: 0.1}


@torch.no_grad()
def disagreement(model: PreTrainedModel) -> str | None:
    """How the model's hidden states differ when rows share their beginning; None if they do not.

    The model's parameters have to be there whole, not sharded.
    """
    device = next(model.parameters()).device
    vocabulary = model.config.get_text_config().vocab_size
    # Away from the first ids, which tend to be special.
    draw = torch.arange(_PREFIX + _ROWS * _BRANCH, device=device) * 7 + vocabulary // 2
    draw %= vocabulary
    branches = draw[_PREFIX:].view(_ROWS, _BRANCH)
    ids = torch.cat([draw[:_PREFIX].expand(_ROWS, -1), branches], 1)
    mask = torch.ones_like(ids)
    scored = mask.bool()
    scored[:, 0] = False
    tree = build_tree(ids, mask, scored, keep_every_token=True, min_saved_tokens=1)
    training = {module: module.training for module in model.modules()}
    shared: list[Tensor] = []

    def keep(output: Any) -> Any:
        shared.append(output.last_hidden_state[0])
        return output

    try:
        for module in training:
            module.training = False
        # The caller's autocast would round both, and hide from the tolerance that it does.
        with torch.autocast(device.type, enabled=False):
            plain = model.base_model(input_ids=ids, attention_mask=mask, use_cache=False)
            with through_backbone(model, TreePass(TreeAttention(tree)), keep):
                positions = tree.position.unsqueeze(0)
                model.base_model(input_ids=tree.take(ids), position_ids=positions)
    except (RuntimeError, ValueError) as error:
        return str(error)
    finally:
        for module, was in training.items():
            module.training = was
    wanted_TD = plain.last_hidden_state[tree.row, tree.column].float()
    error_T = (shared[0].float() - wanted_TD).norm(dim=-1) / wanted_TD.norm(dim=-1)
    worst = float(error_T.median())
    if worst <= _TOLERATED.get(plain.last_hidden_state.dtype, 0.1):
        return None
    return f"its hidden states differ by {worst:.1%} when rows share their beginning"
