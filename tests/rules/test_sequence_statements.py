"""What is said of tokenization, padding and lengths, and where nothing is known of them."""

from __future__ import annotations

import pytest

from memlint.api import Api, newest, parse_target
from memlint.rule.findings import Violation
from memlint.rule.registry import load
from memlint.run.engine import check_source
from memlint.source import Source


def found(text: str, code: str, target: str = "") -> list[Violation]:
    api = Api(parse_target(target) if target else newest())
    return list(check_source(Source("a.py", text), load([code]), api))


TOKENIZED = """\
from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer

{tokenizer}

def tokenize(row):
    return {call}

train = dataset.map(tokenize)
Trainer(AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B"), args, train_dataset=train).train()
"""
TOKENIZERS = (
    'tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")',
    "tokenizer = load_tokenizer()",
    'tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")\nprint(tokenizer)\ndel tokenizer',
    "from ours import tokenizer",
)


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
def test_a_chat_template_that_makes_text_tokenizes_nothing(tokenizer: str) -> None:
    call = '{"text": tokenizer.apply_chat_template(row["messages"], tokenize=False)}'
    assert found(TOKENIZED.format(tokenizer=tokenizer, call=call), "MEM101") == []
    call = 'tokenizer(row["text"])'
    assert len(found(TOKENIZED.format(tokenizer=tokenizer, call=call), "MEM101")) == 1
