"""ChatML: the template's text, the ids everywhere, room in the embeddings, clear refusals."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from memlint_runtime import setup_chat_format
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

MESSAGES = [{"role": "user", "content": "a b"}, {"role": "assistant", "content": "b"}]


def base(rows: int = 3) -> tuple[LlamaForCausalLM, PreTrainedTokenizerFast]:
    words = Tokenizer(models.WordLevel({"<unk>": 0, "a": 1, "b": 2}, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, unk_token="<unk>")  # type: ignore[no-untyped-call]
    config = LlamaConfig(
        vocab_size=rows,
        hidden_size=8,
        intermediate_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
    )
    return LlamaForCausalLM(config), tokenizer


def test_model_and_tokenizer_speak_chatml() -> None:
    given = base()
    kept = given[0].get_input_embeddings().weight.detach().clone()
    model, tokenizer = setup_chat_format(*given)
    assert (model, tokenizer) == given
    text = tokenizer.apply_chat_template(MESSAGES, tokenize=False, add_generation_prompt=True)
    assert text == (
        "<|im_start|>user\na b<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n"
        "<|im_start|>assistant\n"
    )
    begin, end = tokenizer.convert_tokens_to_ids(["<|im_start|>", "<|im_end|>"])
    assert tokenizer(text, add_special_tokens=False)["input_ids"].count(end) == 2
    assert tokenizer.decode([begin, 1, end], skip_special_tokens=True).strip() == "a"
    for owner in (tokenizer, model.config, model.generation_config):
        assert (owner.bos_token_id, owner.eos_token_id, owner.pad_token_id) == (begin, end, end)
    embeddings = model.get_input_embeddings().weight
    assert embeddings.shape[0] == model.config.vocab_size == len(tokenizer) == 5
    assert model.get_output_embeddings().weight.shape[0] == 5
    assert torch.equal(embeddings[:3], kept)
    assert model(torch.tensor([[begin, 1, end]])).logits.shape == (1, 3, 5)


@pytest.mark.parametrize(
    ("rows", "multiple", "wanted"), [(3, None, 5), (3, 8, 8), (9, None, 9), (9, 4, 12), (8, 8, 8)]
)
def test_embeddings_grow_and_never_shrink(rows: int, multiple: int | None, wanted: int) -> None:
    model, _ = setup_chat_format(*base(rows), resize_to_multiple_of=multiple)
    assert model.get_input_embeddings().weight.shape[0] == wanted


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"format": "alpaca"}, 'format must be "chatml"'),
        ({"resize_to_multiple_of": 0}, "at least 1"),
    ],
)
def test_mistakes_are_named(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        setup_chat_format(*base(), **given)


def test_template_is_not_overwritten() -> None:
    model, tokenizer = base()
    tokenizer.chat_template = "{{ messages }}"
    with pytest.raises(ValueError, match="has a chat template already"):
        setup_chat_format(model, tokenizer)
    tokenizer.chat_template = None
    setup_chat_format(model, tokenizer)
