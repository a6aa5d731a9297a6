"""Losses, gradients and logits of ragged batches against the padded batch of the stock model."""

from __future__ import annotations

import copy
import statistics
from typing import Any
from unittest.mock import patch

import pytest
import torch
from memlint_runtime import undo, use_variable_length_attention
from memlint_runtime.attention import engine, integration
from memlint_runtime.attention.forest import DocumentForest, Forest
from memlint_runtime.attention.kernels.flex import forest_block_mask
from torch import Tensor
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    Gemma3Config,
    Gemma3ForConditionalGeneration,
    GPT2Config,
    GPT2LMHeadModel,
)

from tests.runtime.attention.models import (
    FAMILIES,
    checkpoint,
    documents,
    flattened,
    padded,
    tiny_model,
)
from tests.runtime.float64 import in_float64, judge

LENGTHS = (13, 1, 9, 20, 4)


def loss_and_gradients(model: Any, batch: dict[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
    model.zero_grad()
    loss = model(**batch).loss
    loss.backward()
    return loss.detach(), {
        n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None
    }


def expected_of(model: Any, batch: dict[str, Any]) -> tuple[Any, Any]:
    """Of the stock model: in float32, and in float64."""
    truth = in_float64(lambda exact: loss_and_gradients(exact, batch), model)
    return loss_and_gradients(model, batch), truth


def assert_same(ours: tuple[Tensor, dict[str, Tensor]], expected: tuple[Any, Any]) -> None:
    judge(ours, *expected)


@pytest.mark.draws
@pytest.mark.parametrize("checkpointing", [False, True], ids=["plain", "checkpointed"])
@pytest.mark.parametrize("family", FAMILIES)
def test_loss_and_every_gradient_equal_the_padded_batch(family: str, checkpointing: bool) -> None:
    model = tiny_model(family).train()
    docs = documents(*LENGTHS)
    expected = expected_of(model, padded(docs))
    use_variable_length_attention(model)
    if checkpointing:
        checkpoint(model)
    flat = flattened(docs)
    lengths = torch.tensor(LENGTHS)
    cu_seqlens = torch.cat([torch.zeros(1), lengths.cumsum(0)]).int()
    told = {k: v for k, v in flat.items() if k != "position_ids"}
    told |= {"cu_seq_lens_q": cu_seqlens, "max_length_q": 20}
    two_rows = {k: torch.cat([v, v.flip(0)]) for k, v in flat.items()}
    assert_same(loss_and_gradients(model, flat), expected)
    assert_same(loss_and_gradients(model, told), expected)
    assert_same(loss_and_gradients(model, two_rows), expected)
    assert_same(loss_and_gradients(model, padded(docs)), expected)
    with_mask_of_ones = {**flat, "attention_mask": torch.ones_like(flat["input_ids"])}
    assert_same(loss_and_gradients(model, with_mask_of_ones), expected)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_changed_document_moves_no_other_by_a_bit(family: str) -> None:
    model = use_variable_length_attention(tiny_model(family)).eval()
    docs = documents(*LENGTHS)
    with torch.no_grad():
        before = model(**flattened(docs)).logits[0].split(LENGTHS)
        docs[2] = (docs[2] + 5) % 90 + 3
        after = model(**flattened(docs)).logits[0].split(LENGTHS)
    for index, (a, b) in enumerate(zip(before, after, strict=True)):
        assert torch.equal(a, b) == (index != 2), index


@pytest.mark.parametrize("family", ["llama", "gemma2"])
def test_cache_left_on_does_not_mix_documents(family: str) -> None:
    model = tiny_model(family).train()
    docs = documents(*LENGTHS)
    expected = expected_of(model, padded(docs))
    use_variable_length_attention(model)
    assert_same(loss_and_gradients(model, {**flattened(docs), "use_cache": True}), expected)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("family", ["llama", "mistral", "gemma2", "gpt_neox", "qwen3_moe"])
def test_padding_taken_out_of_the_trunk(family: str, side: str) -> None:
    model = tiny_model(family).train()
    batch = padded(documents(*LENGTHS))
    if side == "left":
        batch = {k: v.flip(1) for k, v in batch.items()}
        # Padding must not be asked to predict a document's first token.
        batch["labels"][torch.arange(5), batch["attention_mask"].argmax(1)] = -100
    expected = expected_of(model, batch)
    tokens: list[int] = []
    model.base_model.layers[0].register_forward_pre_hook(lambda m, a: tokens.append(a[0].shape[1]))
    use_variable_length_attention(model, remove_padding=True)
    tokens.clear()  # of the first look at the model
    assert_same(loss_and_gradients(model, batch), expected)
    assert tokens == [sum(LENGTHS)]
    hidden = model(**batch, output_hidden_states=True).hidden_states
    assert {h.shape[:2] for h in hidden} == {(5, 20)}


@pytest.mark.parametrize("family", ["llama", "qwen3", "gemma2", "gemma3_text", "gpt_oss"])
def test_autocast_errs_no_more_than_the_padded_batch(family: str) -> None:
    """Float32 weights under bf16 autocast, where queries, keys and values differ in dtype.

    The median of several models: rounding may send a token to another expert, in either of both.
    """
    theirs, ours = zip(*(errors_of_autocast(family, seed) for seed in range(5)), strict=True)
    assert 0 < statistics.median(ours) < 1.5 * statistics.median(theirs)


def errors_of_autocast(family: str, seed: int) -> tuple[float, float]:
    """Of the gradients of a padded batch as transformers computes them, and of a packed one."""
    model, docs = tiny_model(family).train(), documents(*LENGTHS)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=0.01)
    exact = loss_and_gradients(model, padded(docs))

    def error(batch: dict[str, Any]) -> float:
        model.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            loss = model(**batch).loss
        loss.backward()
        gradients = {n: p.grad for n, p in model.named_parameters() if p.grad is not None}
        squares = sum(float((gradients[n] - g).square().sum()) for n, g in exact[1].items())
        return squares**0.5

    theirs = error(padded(docs))
    use_variable_length_attention(model)
    return theirs, error(flattened(docs))


@pytest.mark.parametrize("remove_padding", [False, True])
def test_padding_inside_rows_and_rows_of_nothing_else(remove_padding: bool) -> None:
    model = tiny_model("llama").train()
    batch = padded(documents(12, 9, 5))
    batch["attention_mask"][0, 3:6] = 0
    batch["attention_mask"][2] = 0
    batch["labels"][batch["attention_mask"] == 0] = -100
    # What follows padding is predicted from it, which no path defines.
    batch["labels"][0, 6] = -100
    expected = expected_of(model, batch)
    use_variable_length_attention(model, remove_padding=remove_padding)
    assert_same(loss_and_gradients(model, batch), expected)
    nothing = {**batch, "attention_mask": torch.zeros_like(batch["attention_mask"])}
    assert model(**nothing).logits.isfinite().all()


@pytest.mark.parametrize("family", ["llama", "mistral", "gemma2", "gpt_oss"])
def test_generation_is_unchanged(family: str) -> None:
    model = tiny_model(family).eval()
    docs = documents(11, 5)
    ids = torch.stack([docs[0], torch.cat([torch.zeros(6, dtype=torch.long), docs[1]])])
    ask = {"input_ids": ids, "attention_mask": (ids != 0).long()}
    options = {"max_new_tokens": 12, "do_sample": False, "eos_token_id": None}
    expected = model.generate(**ask, **options)
    use_variable_length_attention(model)
    assert torch.equal(model.generate(**ask, **options), expected)


# At a graph break dynamo itself looks at `.grad` of tensors that are no leaves.
@pytest.mark.draws(1)
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")
@pytest.mark.parametrize("checkpointing", [False, True], ids=["plain", "checkpointed"])
def test_compiled(checkpointing: bool) -> None:
    model = tiny_model("mistral").train()
    docs = documents(*LENGTHS)
    expected = expected_of(model, padded(docs))
    use_variable_length_attention(model)
    if checkpointing:
        checkpoint(model)
    compiled = torch.compile(model, backend="aot_eager")
    model.zero_grad()
    flat = flattened(docs)
    loss = compiled(
        **flat, cu_seq_lens_q=torch.tensor([0, 13, 14, 23, 43, 47]), max_length_q=20
    ).loss
    loss.backward()
    gradients = {n: p.grad.clone() for n, p in model.named_parameters()}
    assert_same((loss.detach(), gradients), expected)


@pytest.mark.draws(1)
@pytest.mark.parametrize("checkpointing", [False, True], ids=["plain", "checkpointed"])
def test_no_graph_break_where_the_kernel_needs_none(
    monkeypatch: pytest.MonkeyPatch, checkpointing: bool
) -> None:
    """On CUDA the kernels trace; here a traceable stand-in shows that all else does."""

    def stand_in(
        q: Tensor, k: Tensor, v: Tensor, cu_seqlens: Tensor, longest: int, **options: Any
    ) -> Tensor:
        forest = DocumentForest(cu_seqlens, q.shape[0], longest)
        mask = forest_block_mask(forest, q.device, window=options["window"])
        return q + k.mean() + v.mean() + mask.kv_num_blocks.sum()

    model = use_variable_length_attention(tiny_model("mistral")).train()
    monkeypatch.setattr(integration, "attend_documents", stand_in)
    if checkpointing:
        checkpoint(model)
    whole = torch.compile(model, backend="eager", fullgraph=True, dynamic=True)
    for lengths in ((13, 20), (7, 30, 4)):
        bounds = [0, *torch.tensor(lengths).cumsum(0).tolist()]
        told = {"cu_seq_lens_q": torch.tensor(bounds, dtype=torch.int32), "max_length_q": 30}
        assert whole(**flattened(documents(*lengths)), **told).loss.isfinite()


# Uncompiled on purpose: the compiled kernel runs on CUDA alone.
@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize("family", ["llama", "gemma2", "gemma3_text", "gpt_oss"])
def test_models_by_flex_share_a_block_mask_for_each_window(
    monkeypatch: pytest.MonkeyPatch, family: str
) -> None:
    model, docs = tiny_model(family).eval(), documents(*LENGTHS)
    windows: list[int | None] = []

    def counted(forest: Forest, device: torch.device, *, window: int | None, **options: Any) -> Any:
        windows.append(window)
        return forest_block_mask(forest, device, window=window, **options)

    monkeypatch.setattr(engine.ForestAttention, "choose_path", lambda *_, **__: "flex")
    monkeypatch.setattr(engine, "forest_block_mask", counted)

    def stock(model: Any) -> Tensor:
        rows = model(**padded(docs)).logits
        return torch.cat([row[: len(doc)] for row, doc in zip(rows, docs, strict=True)])

    with torch.no_grad():
        expected = stock(model), in_float64(stock, model)
        use_variable_length_attention(model)
        windows.clear()  # of the first look at the model
        logits = model(**flattened(docs)).logits[0]
    judge(logits, *expected)
    assert windows == ([None] if family == "llama" else [6, None])


# peft still asks transformers by the old name of activation checkpointing.
@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated")
def test_peft_and_copies_keep_documents_apart() -> None:
    peft = pytest.importorskip("peft")
    lora = peft.get_peft_model(tiny_model("llama"), peft.LoraConfig(target_modules=["q_proj"]))
    docs = documents(*LENGTHS)
    expected = expected_of(lora, padded(docs))
    assert use_variable_length_attention(lora) is lora
    assert_same(loss_and_gradients(lora, flattened(docs)), expected)
    assert_same(loss_and_gradients(copy.deepcopy(lora), flattened(docs)), expected)


def test_saved_model_asks_for_no_special_attention(tmp_path: Any) -> None:
    model = use_variable_length_attention(tiny_model("llama"))
    model.save_pretrained(tmp_path)
    assert "memlint" not in (tmp_path / "config.json").read_text()


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "mamba": ({"hidden_size": 32, "num_hidden_layers": 2, "state_size": 4}, "keeps a state"),
    "bert": ({"hidden_size": 32, "num_attention_heads": 4}, "attend both ways"),
    "llama4_text": (
        {**FAMILIES["llama"], "layer_types": ["chunked_attention", "full_attention"]},
        "chunked_attention",
    ),
}


@pytest.mark.parametrize("family", REFUSED)
def test_models_that_mix_documents_otherwise_are_refused(family: str) -> None:
    from transformers import AutoConfig, AutoModelForCausalLM

    options, why = REFUSED[family]
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(AutoConfig.for_model(family, **options))
    with pytest.raises(ValueError, match=why):
        use_variable_length_attention(model)


@pytest.mark.parametrize("family", ["opt", "stablelm"])
def test_models_that_bypass_the_hook_are_refused_at_once(family: str) -> None:
    FAMILIES[family] = {**FAMILIES["llama"], "word_embed_proj_dim": 32}
    try:
        model = tiny_model(family, attention_dropout=0.0)
    finally:
        del FAMILIES[family]
    with pytest.raises(ValueError, match="was not told where documents begin"):
        use_variable_length_attention(model)
    assert model.config._attn_implementation == "sdpa"
    # What could not be looked at (sharded, on the meta device) still cannot mix documents.
    with patch.object(integration, "reason_by_numbers", lambda *_: None):
        use_variable_length_attention(model.eval())
    with pytest.raises(ValueError, match="was not told where documents begin"):
        model(**flattened(documents(3, 4)))


def test_text_batches_of_a_model_with_images() -> None:
    text = {**FAMILIES["gemma3_text"], "model_type": "gemma3_text"}
    vision = {
        "hidden_size": 8,
        "intermediate_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "image_size": 8,
        "patch_size": 4,
    }
    config = Gemma3Config(text_config=text, vision_config=vision, mm_tokens_per_image=4)
    torch.manual_seed(0)
    model = Gemma3ForConditionalGeneration(config)
    parts = documents(*LENGTHS)

    def stock(model: Any) -> Tensor:
        return torch.cat([model(part[None], use_cache=False).logits[0] for part in parts])

    expected = stock(model), in_float64(stock, model)
    use_variable_length_attention(model)
    judge(model(**flattened(parts)).logits[0], *expected)
    assert model.config.vision_config._attn_implementation != integration.ATTENTION_NAME
    with pytest.raises(ValueError, match="for batches of text, got pixel_values"):
        model(**flattened(parts), pixel_values=torch.zeros(1, 3, 8, 8))


def test_positions_by_index_are_refused_at_once() -> None:
    dropouts = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0)
    config = GPT2Config(vocab_size=97, n_embd=32, n_head=4, n_layer=2, n_positions=64, **dropouts)
    torch.manual_seed(0)
    model = GPT2LMHeadModel(config)
    torch.nn.init.normal_(model.transformer.wpe.weight)

    def by_index(module: Any, args: Any) -> Any:
        return (torch.arange(args[0].shape[1])[None],)

    handle = model.transformer.wpe.register_forward_pre_hook(by_index)
    with pytest.raises(ValueError, match=r"hidden states differ by .* when documents share a row"):
        use_variable_length_attention(model)
    assert model.config._attn_implementation == "sdpa"
    assert not model.transformer._forward_pre_hooks
    assert model.training
    handle.remove()
    use_variable_length_attention(model)


def test_another_attention_selected_later_is_another_attention() -> None:
    model, docs = tiny_model("llama"), documents(*LENGTHS)

    def logits(model: Any) -> Tensor:
        scores: Tensor = model(docs[0][None], use_cache=False).logits
        return scores

    expected = logits(model), in_float64(logits, model)
    use_variable_length_attention(model)
    model.set_attn_implementation("sdpa")
    judge(logits(model), *expected)
    use_variable_length_attention(model)
    undo(model)
    assert model.config._attn_implementation == "sdpa"
    assert not model.model._forward_pre_hooks
    judge(logits(model), *expected)


def test_documents_beyond_a_window_in_the_mask_alone_are_refused() -> None:
    common = {**FAMILIES["qwen3_moe"], "shared_expert_intermediate_size": 16}
    windowed = {"sliding_window": 6, "layer_types": ["sliding_attention"] * 2}
    torch.manual_seed(0)
    config = AutoConfig.for_model("qwen2_moe", use_sliding_window=True, **common, **windowed)
    model = AutoModelForCausalLM.from_config(config)
    ids = torch.randint(3, 97, (2, 6))
    expected = model(ids).logits, in_float64(lambda exact: exact(ids).logits, model)
    use_variable_length_attention(model)
    judge(model(ids).logits, *expected)
    with pytest.raises(ValueError, match=r"sliding window of 6 tokens in its mask alone.* has 7"):
        model(torch.randint(3, 97, (1, 7)))


def test_wrong_use_is_named() -> None:
    with pytest.raises(ValueError, match="takes a transformers model, got Linear"):
        use_variable_length_attention(torch.nn.Linear(2, 2))
    model = use_variable_length_attention(tiny_model("llama"))
    with pytest.raises(ValueError, match="remove_padding=False; it cannot be changed"):
        use_variable_length_attention(model, remove_padding=True)
    flat = flattened(documents(3, 4))
    with pytest.raises(ValueError, match="have 6 tokens in all, the batch has 7"):
        model(**flat, cu_seq_lens_q=torch.tensor([0, 3, 6]), max_length_q=3)
    cache = model(flat["input_ids"][:, :2], use_cache=True).past_key_values
    with pytest.raises(ValueError, match="into a cache"):
        model(**flat, cu_seq_lens_q=torch.tensor([0, 3, 7]), past_key_values=cache)
    dropping = use_variable_length_attention(tiny_model("llama", attention_dropout=0.1)).train()
    with pytest.raises(ValueError, match="no dropout"):
        dropping(**flat)


def test_a_model_that_drops_positions_on_the_way_to_its_trunk_is_refused() -> None:
    """Its trunk, called by itself, keeps documents apart; the model would not, without a word."""
    config = AutoConfig.for_model(
        "mamba2", vocab_size=97, hidden_size=32, num_hidden_layers=2, state_size=8, num_heads=4,
        head_dim=16, n_groups=1, chunk_size=4,
    )  # fmt: skip
    model = AutoModelForCausalLM.from_config(config)
    with pytest.raises(ValueError, match=r"differ by [0-9.]+% when documents"):
        use_variable_length_attention(model)
    assert "forward" not in vars(model.base_model.layers[0].mixer)
