"""What a model that shares prompts forwards: a packed row, or the batch as it comes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from memlint_runtime.shared_prompt import Sharing
from memlint_runtime.trl.forward import TokenCount, share_prompts
from torch import Tensor
from transformers import AutoModelForCausalLM, PreTrainedModel, Qwen2Config
from trl.trainer.utils import add_fused_lm_head

from tests.runtime.float64 import in_float64, judge

ROWS, TOKENS = 4, 60


def _model(sharing: Sharing | None, count: TokenCount) -> PreTrainedModel:
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=97,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
    )
    model: PreTrainedModel = AutoModelForCausalLM.from_config(config)
    add_fused_lm_head(model, outputs=("log_probs", "entropy"))
    if sharing is not None:
        share_prompts(model, sharing, count)
    return model


def _batch(prompt: int, padding: int) -> dict[str, Tensor]:
    torch.manual_seed(1)
    ids = torch.randint(3, 97, (ROWS, TOKENS))
    ids[:, :prompt] = ids[:1, :prompt]
    ids[:, prompt] = torch.arange(ROWS)  # no two rows agree any further
    mask = torch.ones_like(ids)
    mask[1:, TOKENS - padding :] = 0
    labels = ids.masked_fill(mask == 0, -100)
    labels[:, :4] = -100
    return {"input_ids": ids, "attention_mask": mask, "labels": labels}


def _forwarded(model: PreTrainedModel, batch: dict[str, Tensor]) -> tuple[Any, tuple[int, ...]]:
    shapes = []
    layer = model.get_input_embeddings()
    hook = layer.register_forward_pre_hook(lambda _, given: shapes.append(tuple(given[0].shape)))
    output = model(**batch, fused_lm_head=True)
    hook.remove()
    (shape,) = shapes
    return output, shape


def test_rows_that_share_nothing_are_forwarded_as_they_come() -> None:
    count = TokenCount()
    batch = _batch(prompt=0, padding=0)
    plain = _model(None, count)(**batch, fused_lm_head=True)
    ours, shape = _forwarded(_model(Sharing(), count), batch)
    assert shape == (ROWS, TOKENS)
    assert torch.equal(ours.log_probs, plain.log_probs)
    assert torch.equal(ours.entropy, plain.entropy)
    assert (count.forwarded, count.repeated) == (ROWS * TOKENS, ROWS * TOKENS)


@pytest.mark.parametrize(
    ("sharing", "prompt", "padding"),
    [
        (Sharing(min_saved_tokens=1), 30, 0),
        (Sharing(), 0, 30),
        (Sharing(attention="dense"), 0, 0),
    ],
    ids=["a shared prompt", "padding", "chosen attention"],
)
def test_what_is_saved_is_packed(sharing: Sharing, prompt: int, padding: int) -> None:
    count = TokenCount()
    batch = _batch(prompt, padding)

    def scores(model: Any) -> Any:
        return model(**batch, fused_lm_head=True)

    stock = _model(None, count)
    plain, truth = scores(stock), in_float64(scores, stock)
    ours, shape = _forwarded(_model(sharing, count), batch)
    assert shape[0] == 1
    assert shape[1] < ROWS * TOKENS
    seen = plain.label_mask
    judge(ours.log_probs[seen], plain.log_probs[seen], truth.log_probs[seen])


def test_a_budget_is_kept_where_nothing_is_shared() -> None:
    longest = []
    model = _model(Sharing(token_budget=2 * TOKENS), TokenCount())
    layer = model.get_input_embeddings()
    layer.register_forward_pre_hook(lambda _, given: longest.append(given[0].numel()))
    model(**_batch(prompt=0, padding=0), fused_lm_head=True)
    assert max(longest) <= 2 * TOKENS
