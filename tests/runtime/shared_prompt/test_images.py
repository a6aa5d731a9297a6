"""Prompts that hold images: TRL's own scoring of the padded batch, and ours, in float32."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
import torch
from memlint_runtime import undo
from memlint_runtime.shared_prompt import Sharing
from memlint_runtime.shared_prompt.images import CannotPackError, _require_causal
from memlint_runtime.trl.forward import TokenCount, share_prompts
from memlint_runtime.trl.grouping import _rows_to_keep, grouped_micro_batches
from memlint_runtime.trl.images import _embedded_as_text
from torch import Tensor, nn
from transformers import AutoConfig, AutoModelForImageTextToText
from trl.trainer.utils import add_fused_lm_head

from tests.runtime.float64 import in_float64, judge
from tests.runtime.shared_prompt.comparing import ALL, weights_like
from tests.runtime.shared_prompt.models import checkpoint, gradients

IMAGE = 120
VOCABULARY = 128
_TEXT: dict[str, Any] = {
    "vocab_size": VOCABULARY, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "pad_token_id": 0,
    "max_position_embeddings": 256,
    "rope_parameters": {
        "rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 1, 1],
        "mrope_interleaved": True,
    },
}  # fmt: skip
_VISION: dict[str, Any] = {
    "depth": 2, "hidden_size": 16, "num_heads": 2, "intermediate_size": 24, "patch_size": 4,
    "spatial_merge_size": 2, "temporal_patch_size": 2, "out_hidden_size": 32, "in_channels": 3,
}  # fmt: skip
_IDS = {"image_token_id": IMAGE, "video_token_id": 121, "vision_start_token_id": 122,
        "vision_end_token_id": 123}  # fmt: skip
_DELTA = {
    "linear_num_value_heads": 4, "linear_num_key_heads": 2, "linear_key_head_dim": 8,
    "linear_value_head_dim": 8, "layer_types": ["linear_attention", "full_attention"],
}  # fmt: skip
_EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
_SQUARE = {
    "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2,
    "image_size": 16, "patch_size": 4, "num_channels": 3,
}  # fmt: skip

PATCHED: dict[str, Callable[[], Any]] = {
    "qwen2_5_vl": lambda: AutoConfig.for_model(
        "qwen2_5_vl", text_config=_TEXT, **_IDS,
        vision_config={**_VISION, "window_size": 16, "fullatt_block_indexes": [1]},
    ),
    "qwen3_vl": lambda: AutoConfig.for_model(
        "qwen3_vl", text_config=_TEXT, **_IDS,
        vision_config={**_VISION, "deepstack_visual_indexes": [0], "num_position_embeddings": 64},
    ),
    "qwen3_5": lambda: AutoConfig.for_model(
        "qwen3_5", text_config={**_TEXT, **_DELTA}, **_IDS,
        vision_config={**_VISION, "num_position_embeddings": 64},
    ),
}  # fmt: skip
WITH_EXPERTS: dict[str, Callable[[], Any]] = {
    "qwen3_vl_moe": lambda: AutoConfig.for_model(
        "qwen3_vl_moe", text_config={**_TEXT, **_EXPERTS}, **_IDS,
        vision_config={**_VISION, "deepstack_visual_indexes": [0], "num_position_embeddings": 64},
    ),
    "qwen3_5_moe": lambda: AutoConfig.for_model(
        "qwen3_5_moe", **_IDS,
        text_config={**_TEXT, **_DELTA, **_EXPERTS, "shared_expert_intermediate_size": 16},
        vision_config={**_VISION, "num_position_embeddings": 64},
    ),
}  # fmt: skip
_PADS = {"input_ids": 0, "attention_mask": 0, "labels": -100}
GRID = [1, 4, 4]  # patches; a fourth as many tokens


def tiny(config: Any, *, checkpointing: bool = False) -> Any:
    torch.manual_seed(0)
    model = AutoModelForImageTextToText.from_config(config, attn_implementation="eager")
    for parameter in model.parameters():
        nn.init.normal_(parameter, 0.0, 0.15 if parameter.dim() > 1 else 0.1)
    if checkpointing:
        checkpoint(model)
    add_fused_lm_head(model, outputs=("log_probs", "entropy"))
    return model.float().train()


def rows_of(images: list[list[int]], patched: bool) -> dict[str, Tensor]:
    """A padded batch; row r holds the images with the numbers `images[r]`. Rows with one list of
    images have one prompt."""
    draw = torch.Generator().manual_seed(3)
    kinds = list(dict.fromkeys(map(tuple, images)))
    starts = [torch.randint(3, 100, (5,), generator=draw).tolist()] * len(kinds)
    asks = [torch.randint(3, 100, (4 + i,), generator=draw).tolist() for i in range(len(kinds))]
    rows, prompts = [], []
    for held in images:
        kind = kinds.index(tuple(held))
        prompt = list(starts[kind])
        for _ in held:
            prompt += [122, *[IMAGE] * 4, 123, 7]
        prompts.append(prompt + asks[kind])
        completion = torch.randint(3, 100, (3 + len(rows) % 4,), generator=draw).tolist()
        rows.append((prompts[-1], completion))
    width, tail = max(map(len, prompts)), max(len(c) for _, c in rows)
    ids = torch.tensor([[0] * (width - len(p)) + p + c + [0] * (tail - len(c)) for p, c in rows])
    mask = (ids != 0).long()
    labels = ids.masked_fill(mask == 0, -100)
    labels[:, :width] = -100
    shape = (16, 3 * 2 * 4 * 4) if patched else (1, 3, 16, 16)
    pixels = torch.randn(8, *shape, generator=draw)
    held_pixels = [pixels[number] for held in images for number in held]
    batch = {"input_ids": ids, "attention_mask": mask, "labels": labels,
             "pixel_values": torch.cat([pixels[0][:0], *held_pixels])}  # fmt: skip
    if patched:
        batch["image_grid_thw"] = torch.tensor([GRID] * len(held_pixels))
        batch["mm_token_type_ids"] = (ids == IMAGE).int()
    return batch


def compare(
    model: Any, batch: dict[str, Tensor], sharing: Sharing = ALL, *, balanced: bool = False
) -> TokenCount:
    """balanced: with the routers' loss."""
    asked: dict[str, Any] = {"fused_lm_head": True, "output_router_logits": balanced or None}

    def trained(model: Any, batch: dict[str, Tensor]) -> Any:
        output = model(**batch, **asked)
        weigh = weights_like(output.log_probs)
        scores = (output.log_probs * weigh).sum() + (output.entropy * weigh.flip(0)).sum()
        grown = gradients(scores + 10 * output.aux_loss if balanced else scores, model)
        names = ("log_probs", "entropy", *(("aux_loss", "loss") if balanced else ()))
        return {name: getattr(output, name).detach() for name in names}, grown

    expected, truth = trained(model, batch), in_float64(trained, model, batch)
    count = TokenCount()
    share_prompts(model, sharing, count)
    judge(trained(model, batch), expected, truth)
    return count


@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("name", PATCHED)
def test_equal_to_trl_s_repeated_prompts(name: str, checkpointing: bool) -> None:
    """Two groups with other images and one prompt without, in one batch; three images in all."""
    model = tiny(PATCHED[name](), checkpointing=checkpointing)
    batch = rows_of([[0], [0], [0], [1, 2], [1, 2], []], patched=True)
    seen: list[int] = []
    model.model.visual.register_forward_pre_hook(lambda m, args: seen.append(len(args[0])))
    count = compare(model, batch)
    assert seen[0] == 7 * 16
    assert seen[-1] == 3 * 16, "each image goes through the tower once"
    assert count.forwarded < count.repeated * 0.75


@pytest.mark.parametrize("name", WITH_EXPERTS)
def test_the_routers_loss_of_a_batch_with_images(name: str) -> None:
    """Each token counts once for every row that it stands for, those of images included."""
    batch = rows_of([[0], [0], [0], [1, 2], [1, 2], []], patched=True)
    count = compare(tiny(WITH_EXPERTS[name]()), batch, balanced=True)
    assert count.forwarded < count.repeated


def test_the_same_prompt_with_another_image_is_another_prompt() -> None:
    """Their token ids are the same, before the images and behind them."""
    forwarded = []
    for replaced in (False, True):
        batch = rows_of([[0], [0], [0]], patched=True)
        if replaced:
            batch["pixel_values"][16:32] += 1.0
        count = compare(tiny(PATCHED["qwen3_vl"]()), batch)
        forwarded.append(count.forwarded)
    assert forwarded[1] > forwarded[0]


def test_images_that_are_rows_of_pixels() -> None:
    config = AutoConfig.for_model(
        "llava",
        text_config={"model_type": "llama", **{k: v for k, v in _TEXT.items() if "rope" not in k}},
        vision_config={"model_type": "siglip_vision_model", **_SQUARE, "image_size": 8},
        image_token_index=IMAGE,
        vision_feature_select_strategy="full",
    )
    model = tiny(config)
    batch = rows_of([[0], [0], [0], [1, 2], [1, 2], []], patched=False)
    batch["pixel_values"] = batch["pixel_values"][..., :8, :8]
    seen: list[int] = []
    model.model.vision_tower.register_forward_pre_hook(
        lambda m, args, kwargs: seen.append(len((*args, *kwargs.values())[0])), with_kwargs=True
    )
    compare(model, batch)
    assert (seen[0], seen[-1]) == (7, 3)


def test_images_whose_tokens_see_each_other_both_ways_are_repeated_and_that_is_said(
    caplog: pytest.LogCaptureFixture,
) -> None:
    text = {**_TEXT, "sliding_window": 64, "query_pre_attn_scalar": 8}
    text = {k: v for k, v in text.items() if k != "rope_parameters"}
    config = AutoConfig.for_model(
        "gemma3", text_config=text, vision_config=_SQUARE, mm_tokens_per_image=4,
        image_token_index=IMAGE, boi_token_index=122, eoi_token_index=123,
    )  # fmt: skip
    model = tiny(config)
    batch = rows_of([[0], [0], [0]], patched=False)
    batch["token_type_ids"] = (batch["input_ids"] == IMAGE).long()
    with caplog.at_level(logging.WARNING, "memlint_runtime.trl"):
        count = compare(model, batch)
    assert count.forwarded == 0
    assert "see each other both ways" in caplog.text
    del batch["token_type_ids"], batch["pixel_values"]
    batch["input_ids"][batch["input_ids"] == IMAGE] = 8
    model(**batch, fused_lm_head=True)
    assert 0 < count.forwarded < count.repeated, "text alone is shared"


def _seen(rows: list[str]) -> Tensor:
    return torch.tensor([[mark == "x" for mark in row] for row in rows])[None, None]


@pytest.mark.parametrize("added", [False, True])
def test_masks_that_are_more_than_order_and_a_window_are_refused(added: bool) -> None:
    def masks(*rows: str) -> Tensor:
        seen = _seen(list(rows))
        return torch.where(seen, 0.0, -1e9) if added else seen

    real = torch.ones(1, 4, dtype=torch.bool)
    _require_causal(masks("x...", "xx..", "xxx.", "xxxx"), real)
    _require_causal({"full": None, "window": masks("x...", "xx..", ".xx.", "..xx")}, real)
    with pytest.raises(CannotPackError, match="both ways"):
        _require_causal(masks("x...", "xxx.", "xxx.", "xxxx"), real)
    for hiding in (("x...", "xx..", "x.x.", "xxxx"), ("x...", "xx..", "..x.", "..xx")):
        with pytest.raises(CannotPackError, match="otherwise than by a window"):
            _require_causal(masks(*hiding), real)
    # What padding sees, and who sees it, is nobody's matter.
    padded = torch.tensor([[False, True, True, True]])
    _require_causal(masks("xxxx", ".x..", ".xx.", ".xxx"), padded)


def test_a_token_for_images_beyond_the_vocabulary() -> None:
    found = _embedded_as_text(nn.Embedding(4, 2), torch.tensor([[1, 9]]))
    assert found.shape == (1, 2, 2)


@pytest.mark.parametrize("name", PATCHED)
def test_text_alone_of_a_model_that_takes_images(name: str) -> None:
    """Padded on the left, with the marks of images that TRL gives, or without."""
    batch = rows_of([[], [], []], patched=True)
    batch = {n: v for n, v in batch.items() if n in ("input_ids", "attention_mask", "labels")}
    batch = {n: nn.functional.pad(v, (3, 0), value=_PADS[n]) for n, v in batch.items()}
    model = tiny(PATCHED[name]())
    for given in (batch, {**batch, "mm_token_type_ids": torch.zeros_like(batch["input_ids"])}):
        count = compare(model, given)
        undo(model)
        assert 0 < count.forwarded < count.repeated


def test_prompts_with_images_are_not_waited_for() -> None:
    """They go whole with their micro-batch, and their tokens do not say which images they hold."""
    mask = torch.ones(1, 3)
    ids = torch.tensor([[1, 2, 3]])
    text = {
        "prompt_ids": ids, "prompt_mask": mask, "completion_ids": ids, "completion_mask": mask,
        "pixel_values": None,
    }  # fmt: skip
    assert len(_rows_to_keep(text)) == 1
    assert not _rows_to_keep({**text, "pixel_values": torch.zeros(1, 2)})


def test_micro_batches_keep_the_images_of_their_rows() -> None:
    batch = rows_of([[0], [0], [1, 2], [1, 2]], patched=True)
    width = int((batch["labels"] != -100).float().argmax(1).min())
    whole: dict[str, Any] = {
        "prompt_ids": batch["input_ids"][:, :width],
        "prompt_mask": batch["attention_mask"][:, :width],
        "completion_ids": batch["input_ids"][:, width:],
        "completion_mask": batch["attention_mask"][:, width:],
        "pixel_values": batch["pixel_values"],
        "image_grid_thw": batch["image_grid_thw"],
        "mm_token_type_ids": batch["mm_token_type_ids"],
        "num_images": [1, 1, 2, 2],
    }
    first, second = grouped_micro_batches(whole, 2, permutation=torch.arange)
    assert torch.equal(first["pixel_values"], batch["pixel_values"][:32])
    assert torch.equal(second["pixel_values"], batch["pixel_values"][32:])
    for part in (first, second):
        ids = torch.cat([part["prompt_ids"], part["completion_ids"]], 1)
        assert part["mm_token_type_ids"].shape == ids.shape
        assert torch.equal(part["mm_token_type_ids"] == 1, ids == IMAGE)
        assert part["image_grid_thw"].shape[0] == sum(part["num_images"])
