"""In which precision weights are, and what is said of it."""

from __future__ import annotations

import json

import pytest

from memlint.api.lookup import Api
from memlint.api.target_versions import newest, parse_target
from memlint.rule.registry import load
from memlint.run.engine import check_source
from memlint.source import Source
from memlint.source.reading import read_source

SCRIPT = """\
import torch
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
from trl import SFTConfig, SFTTrainer
name = "meta-llama/Llama-3.1-8B"
{text}
"""
PLAIN = "Trainer(model, TrainingArguments('out', gradient_accumulation_steps=1)).train()"
LOADED = "model = AutoModelForCausalLM.from_pretrained(name{given})\n{cast}\n" + PLAIN
BY_NAME = (
    "args = SFTConfig('out', bf16=False, fp16=False, gradient_accumulation_steps=1{given})\n"
    "SFTTrainer('meta-llama/Llama-3.1-8B', args=args, train_dataset=rows).train()"
)


def messages(text: str, code: str, target: str = "") -> list[str]:
    api = Api(parse_target(target) if target else newest())
    source = Source("a.py", SCRIPT.format(text=text))
    return [one.message for one in check_source(source, load([code]), api)]


@pytest.mark.parametrize(
    ("given", "cast", "size"),
    [
        (", dtype=torch.float32", "", "29.8 GiB in float32"),
        (", dtype='bfloat16'", "", "14.9 GiB in bfloat16"),
        ("", "", "14.9 GiB at 2 bytes each, twice that in float32"),
        ("", "model = model.float()", "29.8 GiB in float32"),
        (", dtype=torch.float32", "model = model.to(torch.bfloat16)", "14.9 GiB in bfloat16"),
        (", dtype=torch.float32", "model.to('cuda')", "29.8 GiB in float32"),
    ],
)
def test_gradients_have_the_precision_of_their_weights(given: str, cast: str, size: str) -> None:
    (message,) = messages(LOADED.format(given=given, cast=cast), "MEM504")
    assert f": {size};" in message


@pytest.mark.parametrize(
    ("given", "target", "size"),
    [
        ("", "", "29.8 GiB in float32"),
        ("", "trl=0.26", "14.9 GiB at 2 bytes each, twice that in float32"),
        (", model_init_kwargs={'dtype': 'bfloat16'}", "", "14.9 GiB in bfloat16"),
        (", model_init_kwargs={'dtype': torch.float32}", "trl=0.26", "29.8 GiB in float32"),
    ],
)
def test_a_model_given_by_name(given: str, target: str, size: str) -> None:
    (message,) = messages(BY_NAME.format(given=given), "MEM504", target)
    assert f": {size};" in message


def test_half_weights_do_not_train_in_float32() -> None:
    assert messages(BY_NAME.format(given=""), "MEM402")
    given = ", model_init_kwargs={'dtype': 'bfloat16'}"
    assert messages(BY_NAME.format(given=given), "MEM402") == []


@pytest.mark.parametrize(
    ("noted", "precision"),
    [
        ({"accelerator": "GPU", "colab": {"gpuType": "T4"}}, "fp16"),
        ({"kaggle": {"accelerator": "nvidiaTeslaT4", "isGpuEnabled": True}}, "fp16"),
        ({"accelerator": "GPU", "colab": {"gpuType": "A100"}}, "bf16"),
        ({}, "bf16"),
    ],
)
def test_a_notebook_notes_the_gpu_that_it_was_run_on(
    noted: dict[str, object], precision: str
) -> None:
    text = SCRIPT.format(text=LOADED.format(given=", dtype=torch.float32", cast=""))
    cell = {"cell_type": "code", "source": text, "metadata": {}, "outputs": []}
    document = {"cells": [cell], "metadata": noted, "nbformat": 4, "nbformat_minor": 5}
    source = read_source("a.ipynb", json.dumps(document, indent=1).encode())
    (finding,) = check_source(source, load(["MEM402"]), Api(newest()))
    assert finding.fix is not None
    assert f"`{precision}=True`" in finding.fix.message


UNKNOWN = "14.9 GiB at 2 bytes each, twice that in float32"


@pytest.mark.parametrize(
    ("given", "context", "size"),
    [
        (", dtype=torch.float32", "torch.autocast('cuda')", "29.8 GiB in float32"),
        (", dtype=torch.bfloat16", "torch.autocast('cuda')", "14.9 GiB in bfloat16"),
        ("", "torch.autocast('cuda', dtype=torch.float16)", UNKNOWN),
    ],
)
def test_temporaries_of_a_step_have_the_precision_of_the_weights(
    given: str, context: str, size: str
) -> None:
    loop = f"""
model = AutoModelForCausalLM.from_pretrained(name{given}).cuda()
model.train()
optimizer = torch.optim.AdamW(model.parameters())
for batch in batches:
    with {context}:
        loss = model(**batch).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""
    (message,) = messages(loop, "MEM507")
    assert message.endswith(f"as large as the 8 billion weights, {size}")


def test_what_every_gpu_keeps_is_said_of_a_dtype_that_is_known() -> None:
    loop = """
model = torch.nn.parallel.DistributedDataParallel(
    AutoModelForCausalLM.from_pretrained(name{given}).cuda()
)
model.train()
optimizer = torch.optim.AdamW(model.parameters())
for batch in batches:
    model(**batch).loss.backward()
    optimizer.step()
"""
    (message,) = messages(loop.format(given=""), "MEM508")
    assert message.endswith(": 59.6 GiB at 2 bytes each, twice that in float32")
    (message,) = messages(loop.format(given=", dtype=torch.float32"), "MEM508")
    assert message.endswith(": 119.2 GiB in float32")
