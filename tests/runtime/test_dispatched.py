"""Models that accelerate spread over devices (`device_map`), the host and the disk: the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from memlint_runtime import (
    fuse_causal_lm_loss,
    shared_prompt_logprobs,
    tile_mlp,
    use_variable_length_attention,
)
from torch import Tensor

from tests.runtime.float64 import in_float64, judge
from tests.runtime.losses.models import tiny_batch, tiny_model

accelerate = pytest.importorskip("accelerate")

PLACES = {
    "model.embed_tokens": "cpu",
    "model.layers.0": "cpu",
    "model.layers.1": "disk",
    "model.norm": "cpu",
    "model.rotary_emb": "cpu",
    "lm_head": "disk",
}


def on_one_device(model: Any, folder: Path) -> Any:
    return accelerate.dispatch_model(model, {"": "cpu"}, force_hooks=True)


def on_host_and_disk(model: Any, folder: Path) -> Any:
    return accelerate.dispatch_model(
        model, PLACES, main_device="cpu", offload_dir=str(folder), force_hooks=True
    )


def offloaded(model: Any, folder: Path) -> Any:
    return accelerate.cpu_offload(model, execution_device="cpu")


def fused(model: Any) -> Tensor:
    fuse_causal_lm_loss(model, fuse_evaluation=True)
    loss: Tensor = model(**tiny_batch()).loss
    return loss


def tiled(model: Any) -> Tensor:
    tile_mlp(model)
    loss: Tensor = model(**tiny_batch()).loss
    return loss


def loss_alone(model: Any) -> Tensor:
    loss: Tensor = model(**tiny_batch()).loss
    return loss


def by_document(model: Any) -> Tensor:
    use_variable_length_attention(model)
    ids = tiny_batch()["input_ids"][:1]
    positions = torch.cat([torch.arange(5), torch.arange(ids.shape[1] - 5)])[None]
    logits: Tensor = model(ids, position_ids=positions).logits
    return logits


def documents_alone(model: Any) -> Tensor:
    ids = tiny_batch()["input_ids"][:1]
    return torch.cat([model(part).logits for part in (ids[:, :5], ids[:, 5:])], 1)


def shared(model: Any) -> Tensor:
    ids = tiny_batch()["input_ids"]
    prompt, completion = ids[:1, :6].repeat(len(ids), 1), ids[:, 6:]
    ones = torch.ones_like
    return shared_prompt_logprobs(model, prompt, ones(prompt), completion, ones(completion))


def repeated(model: Any) -> Tensor:
    ids = tiny_batch()["input_ids"].clone()
    ids[:, :6] = ids[:1, :6]
    logprobs = model(ids).logits[:, 5:-1].log_softmax(-1)
    return logprobs.gather(-1, ids[:, 6:, None])[..., 0]


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("place", [on_one_device, on_host_and_disk, offloaded])
@pytest.mark.parametrize(
    ("ours", "plain"),
    [(fused, loss_alone), (tiled, loss_alone), (by_document, documents_alone), (shared, repeated)],
)
@torch.no_grad()
def test_as_in_one_place(
    place: Callable[[Any, Path], Any],
    ours: Callable[[Any], Tensor],
    plain: Callable[[Any], Tensor],
    tmp_path: Path,
) -> None:
    expected, truth = plain(tiny_model().eval()), in_float64(plain, tiny_model().eval())
    model = place(tiny_model().eval(), tmp_path)
    judge(ours(model), expected, truth)
    if place is not on_one_device:
        assert model.lm_head.weight.is_meta
