"""Sizes, lengths and precisions that a script decides beside its checkpoint and its arguments."""

from __future__ import annotations

from typing import Any

import pytest

from memlint.api.knowledge.model_types import _table, model_type
from memlint.api.lookup import Api
from memlint.api.target_versions import newest
from memlint.memory import estimate
from memlint.memory.checkpoints import find_config
from memlint.runs.run_settings import settings_of
from memlint.script.model import build_script
from memlint.source import Source

NAME = '"HuggingFaceTB/SmolLM2-360M"'
HEAD = """
from transformers import AutoConfig, AutoModelForCausalLM, LlamaConfig, Trainer, TrainingArguments
"""
TAIL = """
args = TrainingArguments("out", per_device_train_batch_size=8, bf16=True)
Trainer(model=model, args=args, train_dataset=rows).train()
"""
BUILT = "\nmodel = AutoModelForCausalLM.from_config(config)"
SIZES = "vocab_size=9, hidden_size=8, intermediate_size=9, num_hidden_layers=24, "


def settings(text: str) -> dict[str, Any]:
    found = settings_of(build_script(Source("a.py", text), Api(newest())))
    assert found is not None
    return found


@pytest.mark.parametrize(
    "text",
    [
        f"config = AutoConfig.from_pretrained({NAME}, num_hidden_layers=24){BUILT}",
        f'config = LlamaConfig.from_pretrained({NAME}, **{{"num_hidden_layers": 24}}){BUILT}',
        f'config = AutoConfig.from_pretrained({NAME})\nconfig.update({{"num_hidden_layers": 24}})'
        + BUILT,
        f"config = AutoConfig.from_pretrained({NAME})\nconfig.num_hidden_layers = 24{BUILT}",
        f"model = AutoModelForCausalLM.from_pretrained({NAME}, num_hidden_layers=24)",
        f"config = AutoConfig.from_pretrained({NAME})\nconfig.num_hidden_layers = 24\n"
        f"model = AutoModelForCausalLM.from_pretrained({NAME}, config=config)",
        f'config = AutoConfig.for_model("llama", {SIZES}num_attention_heads=1){BUILT}',
    ],
)
def test_sizes_beside_a_checkpoint_are_those_of_the_model(text: str) -> None:
    read = settings(HEAD + text + TAIL)
    assert read["model"]["config"]["num_hidden_layers"] == 24
    if "_name_or_path" in read["model"]["config"]:
        whole = {**find_config(NAME.strip('"')), "num_hidden_layers": 24}
        parameters = estimate({"model": {"config": whole}}).parameters
        assert estimate(read).parameters == parameters < 300e6


@pytest.mark.parametrize(
    "given", ["**overrides()", "num_hidden_layers=depth()", "num_hidden_layers=24, **more()"]
)
def test_sizes_that_nobody_can_read_are_said(given: str) -> None:
    read = settings(f"{HEAD}config = AutoConfig.from_pretrained({NAME}, {given}){BUILT}{TAIL}")
    (said,) = [one for one in estimate(read).assumptions if one.name == "model"]
    assert "sizes may differ" in said.reason


@pytest.mark.parametrize(
    ("config", "parameters"),
    [
        ("GPT2Config(n_layer=6)", 81_912_576),
        ("GPT2Config(n_layer=6, vocab_size=len(tokenizer))", 81_912_576),
        ("LlamaConfig(num_hidden_layers=10)", 2_285_981_696),
        ("Small(num_hidden_layers=10)", 2_285_981_696),
        ("AutoConfig.for_model('qwen2', num_hidden_layers=2)", 1_919_987_712),
    ],
)
def test_sizes_that_a_script_leaves_out_are_those_of_the_class(
    config: str, parameters: int
) -> None:
    own = "from transformers import GPT2Config\nclass Small(LlamaConfig):\n    pass\n"
    read = settings(f"{HEAD}{own}config = {config}{BUILT}{TAIL}")
    assert estimate(read).parameters == parameters


@pytest.mark.parametrize(
    "config", ["LlamaConfig(num_hidden_layers=depth())", "LlamaConfig(**more())"]
)
def test_a_size_that_nobody_can_read_is_no_default(config: str) -> None:
    assert "model" not in settings(f"{HEAD}config = {config}{BUILT}{TAIL}")


def test_defaults_are_those_of_the_library() -> None:
    from transformers import CONFIG_MAPPING

    for kind, sizes in _table()["defaults"].items():
        made = CONFIG_MAPPING[kind]
        assert {name: getattr(made, name) for name in sizes} == sizes, kind


def test_an_option_that_is_no_size_leaves_the_name() -> None:
    read = settings(
        f"{HEAD}config = AutoConfig.from_pretrained({NAME}, use_cache=False){BUILT}{TAIL}"
    )
    assert read["model"] == NAME.strip('"')


CUTS = [
    'data = data.map(lambda row: {"prompt": tokenizer.decode(tokenizer('
    'row["prompt"], truncation=True, max_length=256)["input_ids"])})',
    "def cut(row):\n    ids = tokenizer.encode(row['prompt'])\n    ids = ids[-256:]\n"
    "    return {'prompt': tokenizer.decode(ids)}\ndata = data.map(cut)",
    "data = data.filter(lambda row: len(tokenizer(row['prompt'])['input_ids']) <= 256)",
]


@pytest.mark.parametrize("kind", ["GRPO", "RLOO"])
@pytest.mark.parametrize("cut", CUTS)
def test_prompts_are_as_long_as_the_script_leaves_them(cut: str, kind: str) -> None:
    read = settings(
        f"""
from datasets import load_dataset
from transformers import AutoTokenizer
from trl import {kind}Config, {kind}Trainer
tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
data = load_dataset("trl-lib/tldr", split="train")
{cut}
args = {kind}Config("out", per_device_train_batch_size=8, max_completion_length=64)
{kind}Trainer(model="Qwen/Qwen3-0.6B", reward_funcs=f, args=args, train_dataset=data).train()
"""
    )
    assert read["prompt_len"] == 256


LIGHTNING = """
import lightning as L
import torch
from datasets import load_dataset
from torch.utils.data import DataLoader
from transformers import AutoModelForSequenceClassification, AutoTokenizer

class Data(L.LightningDataModule):
    def __init__(self, {parameters}):
        super().__init__()
        self.save_hyperparameters({kept})
        self.tokenizer = AutoTokenizer.from_pretrained("bert-base-uncased")

    def train_dataloader(self):
        encode = lambda rows: self.tokenizer(
            rows["text"], truncation=True, max_length=self.hparams.max_length
        )
        data = load_dataset("ag_news", split="train").map(encode, batched=True)
        return DataLoader(data, batch_size=self.hparams{read}, shuffle=True)

class Model(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.model = AutoModelForSequenceClassification.from_pretrained("bert-base-uncased")

    def training_step(self, batch, batch_idx):
        return self.model(**batch).loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters())

L.Trainer(accelerator="gpu").fit(Model(), datamodule=Data({given}))
"""


@pytest.mark.parametrize(
    ("parameters", "kept", "read", "given"),
    [
        ("max_length=384, batch_size=24", "", ".batch_size", ""),
        ("max_length=384, batch_size=8", "", '["batch_size"]', "batch_size=24"),
        ("options", "options", ".batch_size", '{"max_length": 384, "batch_size": 24}'),
    ],
)
def test_what_lightning_keeps_of_its_arguments_is_read(
    parameters: str, kept: str, read: str, given: str
) -> None:
    found = settings(LIGHTNING.format(parameters=parameters, kept=kept, read=read, given=given))
    assert (found["micro_batch"], found["seq_len"]) == (24, 384)


@pytest.mark.parametrize(
    "size",
    [
        "size = min(args.block or 1024, tokenizer.model_max_length)",
        "size = args.block\nif size > tokenizer.model_max_length:\n"
        "    size = tokenizer.model_max_length",
        "size = min(args.block, model.config.max_position_embeddings, 2048)",
    ],
)
def test_what_is_asked_for_is_within_a_models_limits(size: str) -> None:
    read = settings(
        f"""{HEAD}import argparse
from transformers import AutoTokenizer
from datasets import load_dataset
parser = argparse.ArgumentParser()
parser.add_argument("--block", type=int, default=896)
args = parser.parse_args()
tokenizer = AutoTokenizer.from_pretrained("gpt2")
model = AutoModelForCausalLM.from_pretrained("gpt2")
{size}
def group_texts(rows):
    joined = {{key: sum(rows[key], []) for key in rows}}
    total = len(joined["input_ids"]) // size * size
    cut = range(0, total, size)
    return {{key: [one[i : i + size] for i in cut] for key, one in joined.items()}}
data = load_dataset("text", split="train").map(lambda row: tokenizer(row["text"]), batched=True)
rows = data.map(group_texts, batched=True)
{TAIL}"""
    )
    assert read["seq_len"] == 896


@pytest.mark.parametrize(
    ("given", "dtype"), [("", "float32"), ('mixed_precision="bf16"', "bfloat16")]
)
def test_accelerate_mixes_no_precision_by_itself(given: str, dtype: str) -> None:
    read = settings(
        f"""{HEAD}import torch
from accelerate import Accelerator
accelerator = Accelerator({given})
model = AutoModelForCausalLM.from_pretrained("gpt2", dtype=torch.float32)
optimizer = torch.optim.AdamW(model.parameters())
model, optimizer = accelerator.prepare(model, optimizer)
for batch in loader:
    loss = model(**batch).loss
    accelerator.backward(loss)
    optimizer.step()
"""
    )
    shown = estimate(read)
    assert shown.settings.compute_dtype == dtype
    assert ("compute_dtype" in {one.name for one in shown.assumptions}) is (not given)


@pytest.mark.parametrize("kind", ["modernbert", "camembert", "mpnet", "m2m_100"])
def test_encoders_are_published_in_float32(kind: str) -> None:
    assert model_type(kind).stored == "float32"
