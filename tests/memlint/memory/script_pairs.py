"""Scripts of many shapes, each with the same run as settings written by hand."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from memlint.api.lookup import Api
from memlint.api.target_versions import newest
from memlint.run.described import runs_in
from memlint.run.runs import Runs


class Pair(NamedTuple):
    """A script with its settings. files: those beside it."""

    name: str
    script: str
    settings: Mapping[str, Any]
    files: Mapping[str, str] = {}


def read_pair(pair: Pair, folder: Path) -> dict[str, Any]:
    """Return the settings that are read from the script, with the files of its project."""
    for name, text in {"pyproject.toml": "", **pair.files, "train.py": pair.script}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    api = Api(newest())
    (found,) = runs_in(str(folder / "train.py"), lambda path, source: api, Runs())
    return found.settings


_TRL = (
    "from datasets import load_dataset\nfrom trl import {names}\n"
    "rows = load_dataset('my/rows', split='train')\n"
)
_AUTO = (
    "import torch\nfrom datasets import load_dataset\n"
    "from transformers import AutoModelFor{head}, AutoTokenizer, Trainer, TrainingArguments\n"
    "rows = load_dataset('my/rows', split='train')\n"
)
_LOOP = """\
import torch
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM
{top}
model = AutoModelForCausalLM.from_pretrained({load}).cuda()
model.train()
{more}
loader = DataLoader(rows, batch_size={rows})
for batch in loader:
{body}
"""
_STEP = """\
    loss = model(**batch).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""
# Vectors of texts by an encoder, which are told apart.
VECTORS = """\
import torch
from torch.utils.data import DataLoader
from transformers import AutoModel, AutoTokenizer
tokenizer = AutoTokenizer.from_pretrained("google-bert/bert-base-uncased")
model = AutoModel.from_pretrained("google-bert/bert-base-uncased").cuda()
model.train()
optimizer = torch.optim.AdamW(model.parameters())
how = {{"padding": True, "truncation": True, "max_length": 128, "return_tensors": "pt"}}
def collate(rows):
{collate}
for batch in DataLoader(rows, batch_size=32, collate_fn=collate):
{step}
    loss = torch.nn.functional.cross_entropy(first @ second.T, torch.arange(len(first)))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def _map(tokens: str) -> str:
    return (
        "def encode(batch):\n"
        f"    return tokenizer(batch['text'], truncation=True, {tokens})\n"
        "rows = rows.map(encode, batched=True)\n"
    )


_BF16 = {"weights_dtype": "bfloat16", "compute_dtype": "bfloat16"}
_MIXED = {"weights_dtype": "float32", "compute_dtype": "bfloat16", "autocast": True}
_SFT: dict[str, Any] = {"trainer": "trl.SFTTrainer", "checkpointing": "full", "seq_len": 1024,
    "micro_batch": 8, "loss": "chunked", "optimizer": "adamw_torch_fused", **_MIXED}  # fmt: skip
_VECTOR: dict[str, Any] = {"model": "google-bert/bert-base-uncased", "trainer": "loop",
    "head": "none", "autocast": False, "seq_len": 128, "optimizer": "adamw_torch"}  # fmt: skip
_HF: dict[str, Any] = {"trainer": "transformers.Trainer", "checkpointing": "none",
    "optimizer": "adamw_torch_fused", "micro_batch": 8}  # fmt: skip

PAIRS: tuple[Pair, ...] = (
    Pair(
        "DeepSpeed's third stage as a dictionary, GPUs by torchrun",
        _TRL.format(names="SFTConfig, SFTTrainer")
        + """
engine = {"bf16": {"enabled": True}, "zero_optimization": {"stage": 3}}
args = SFTConfig("out", deepspeed=engine, per_device_train_batch_size=2, max_length=4096)
SFTTrainer("Qwen/Qwen3-8B", args=args, train_dataset=rows).train()
""",
        {
            **_SFT,
            "model": "Qwen/Qwen3-8B",
            **_BF16,
            "autocast": False,
            "micro_batch": 2,
            "seq_len": 4096,
            "sharding": "zero3",
            "world_size": 8,
            "sharding_options": {"reduce_bucket_size": 500_000_000},
        },
        {"start.sh": "torchrun --nproc_per_node 8 train.py\n"},
    ),
    Pair(
        "DeepSpeed's second stage in a file, states on the host",
        _AUTO.format(head="CausalLM")
        + """
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-3B", dtype=torch.bfloat16)
tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-3B")
"""
        + _map("max_length=2048")
        + """
args = TrainingArguments("out", bf16=True, deepspeed="conf/two.json", gradient_checkpointing=True)
Trainer(model=model, args=args, train_dataset=rows).train()
""",
        {
            **_HF,
            "model": "Qwen/Qwen2.5-3B",
            **_BF16,
            "autocast": False,
            "checkpointing": "full",
            "seq_len": 2048,
            "sharding": "zero2",
            "world_size": 4,
            "sharding_options": {
                "reduce_bucket_size": 500_000_000,
                "offload_optimizer": {"device": "cpu"},
            },
        },
        {
            "conf/two.json": '{"bf16": {"enabled": "auto"}, "zero_optimization": {"stage": 2,'
            ' "offload_optimizer": {"device": "cpu"}}}',
            "run.sh": "deepspeed --num_gpus 4 train.py\n",
        },
    ),
    Pair(
        "FSDP by two words",
        _TRL.format(names="SFTConfig, SFTTrainer")
        + """
args = SFTConfig("out", fsdp="full_shard auto_wrap", bf16=True, gradient_checkpointing=False)
SFTTrainer("meta-llama/Llama-3.2-3B", args=args, train_dataset=rows).train()
""",
        {
            **_SFT,
            "model": "meta-llama/Llama-3.2-3B",
            "checkpointing": "none",
            "sharding": "fsdp2",
            "world_size": 4,
        },
        {"go.sh": "accelerate launch --num_processes 4 train.py\n"},
    ),
    Pair(
        "the first FSDP with its own checkpointing and offload",
        _AUTO.format(head="CausalLM")
        + """
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-7B", dtype="float32")
tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-7B")
"""
        + _map("max_length=1024")
        + """
args = TrainingArguments("out", bf16=True, fsdp=["shard_grad_op", "auto_wrap"],
    fsdp_config={"version": 1, "activation_checkpointing": True}, per_device_train_batch_size=4)
Trainer(model=model, args=args, train_dataset=rows).train()
""",
        {
            **_HF,
            "model": "Qwen/Qwen2.5-7B",
            **_MIXED,
            "checkpointing": "full",
            "seq_len": 1024,
            "micro_batch": 4,
            "sharding": "fsdp",
            "world_size": 8,
            "sharding_options": {"sharding_strategy": "SHARD_GRAD_OP"},
        },
        {"run.sh": "torchrun --nproc-per-node=8 train.py\n"},
    ),
    Pair(
        "options of the load among the arguments",
        _TRL.format(names="GRPOConfig, GRPOTrainer")
        + """
import torch
args = GRPOConfig("out", model_init_kwargs={"dtype": torch.bfloat16}, max_completion_length=512,
    per_device_train_batch_size=8, num_generations=8)
GRPOTrainer("Qwen/Qwen2.5-3B-Instruct", reward_funcs=len, args=args, train_dataset=rows).train()
""",
        {
            "model": "Qwen/Qwen2.5-3B-Instruct",
            "trainer": "trl.GRPOTrainer",
            **_BF16,
            "autocast": True,
            "checkpointing": "full",
            "completion_len": 512,
            "prompt_len": 512,
            "group_size": 8,
            "micro_batch": 8,
            "loss": "chunked",
            "reference_model": False,
            "optimizer": "adamw_torch_fused",
        },
    ),
    Pair(
        "4 bits among the arguments",
        _TRL.format(names="SFTConfig, SFTTrainer")
        + """
import torch
from peft import LoraConfig
from transformers import BitsAndBytesConfig
how = {"dtype": torch.bfloat16, "quantization_config": BitsAndBytesConfig(load_in_4bit=True,
    bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=torch.bfloat16)}
args = SFTConfig("out", model_init_kwargs=how, max_length=2048, per_device_train_batch_size=4)
SFTTrainer("Qwen/Qwen2.5-7B", args=args, train_dataset=rows,
    peft_config=LoraConfig(r=32, target_modules="all-linear")).train()
""",
        {
            **_SFT,
            "model": "Qwen/Qwen2.5-7B",
            **_BF16,
            "method": "qlora",
            "seq_len": 2048,
            "micro_batch": 4,
            "lora": {"r": 32, "target_modules": "all-linear"},
            "quantization": {
                "bits": 4,
                "type": "nf4",
                "compute_dtype": "bfloat16",
                "kbit_preparation": False,
            },
        },
    ),
    Pair(
        "a reward model with pairs",
        _TRL.format(names="RewardConfig, RewardTrainer")
        + """
from transformers import AutoModelForSequenceClassification
model = AutoModelForSequenceClassification.from_pretrained("Qwen/Qwen2.5-1.5B", num_labels=1)
args = RewardConfig("out", per_device_train_batch_size=4, max_length=1024, bf16=True,
    gradient_checkpointing=False)
RewardTrainer(model=model, args=args, train_dataset=rows).train()
""",
        {
            "model": "Qwen/Qwen2.5-1.5B",
            "trainer": "trl.RewardTrainer",
            "head": "classes",
            "labels": 1,
            "micro_batch": 4,
            "seq_len": 1024,
            "checkpointing": "none",
            "optimizer": "adamw_torch_fused",
            **_BF16,
            "autocast": True,
        },
    ),
    Pair(
        "a reward model by name",
        _TRL.format(names="RewardConfig, RewardTrainer")
        + """
args = RewardConfig("out", per_device_train_batch_size=2, max_length=2048)
RewardTrainer("Qwen/Qwen3-0.6B", args=args, train_dataset=rows).train()
""",
        {
            "model": "Qwen/Qwen3-0.6B",
            "trainer": "trl.RewardTrainer",
            "micro_batch": 2,
            "seq_len": 2048,
            "checkpointing": "full",
            "optimizer": "adamw_torch_fused",
            **_MIXED,
        },
    ),
    Pair(
        "a classifier of texts, padded to one length",
        _AUTO.format(head="SequenceClassification")
        + """
model = AutoModelForSequenceClassification.from_pretrained(
    "google-bert/bert-base-uncased", num_labels=3)
tokenizer = AutoTokenizer.from_pretrained("google-bert/bert-base-uncased")
"""
        + _map("padding='max_length', max_length=256")
        + """
args = TrainingArguments("out", per_device_train_batch_size=32, bf16=True)
Trainer(model=model, args=args, train_dataset=rows).train()
""",
        {
            **_HF,
            "model": "google-bert/bert-base-uncased",
            "head": "classes",
            "labels": 3,
            **_MIXED,
            "micro_batch": 32,
            "seq_len": 256,
            "fixed_length": True,
        },
    ),
    Pair(
        "a classifier of tokens",
        _AUTO.format(head="TokenClassification")
        + """
model = AutoModelForTokenClassification.from_pretrained("answerdotai/ModernBERT-large",
    num_labels=9, dtype=torch.float32)
tokenizer = AutoTokenizer.from_pretrained("answerdotai/ModernBERT-large")
"""
        + _map("max_length=512")
        + """
args = TrainingArguments("out", per_device_train_batch_size=16, bf16=True)
Trainer(model=model, args=args, train_dataset=rows).train()
""",
        {
            **_HF,
            "model": "answerdotai/ModernBERT-large",
            "head": "tokens",
            "labels": 9,
            **_MIXED,
            "micro_batch": 16,
            "seq_len": 512,
        },
    ),
    Pair(
        "answers that are judged one by one, and their reference",
        _TRL.format(names="KTOConfig, KTOTrainer")
        + """
from transformers import AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-1.7B", dtype="bfloat16")
args = KTOConfig("out", per_device_train_batch_size=8, max_length=1024)
KTOTrainer(model=model, args=args, train_dataset=rows).train()
""",
        {
            "model": "Qwen/Qwen3-1.7B",
            "trainer": "trl.KTOTrainer",
            **_BF16,
            "autocast": True,
            "micro_batch": 8,
            "seq_len": 1024,
            "checkpointing": "full",
            "loss": "chunked",
            "reference_model": True,
            "optimizer": "adamw_torch_fused",
        },
    ),
    Pair(
        "pairs whose reference was asked before",
        _TRL.format(names="DPOConfig, DPOTrainer")
        + """
args = DPOConfig("out", precompute_ref_log_probs=True, per_device_train_batch_size=4,
    model_init_kwargs={"dtype": "bfloat16"}, max_length=2048)
DPOTrainer("meta-llama/Llama-3.2-3B", args=args, train_dataset=rows).train()
""",
        {
            "model": "meta-llama/Llama-3.2-3B",
            "trainer": "trl.DPOTrainer",
            **_BF16,
            "autocast": True,
            "micro_batch": 4,
            "seq_len": 2048,
            "checkpointing": "full",
            "loss": "chunked",
            "reference_model": False,
            "optimizer": "adamw_torch_fused",
        },
    ),
    Pair(
        "pairs with a reference of the same kind",
        _TRL.format(names="DPOConfig, DPOTrainer")
        + """
from transformers import AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-1.5B", dtype="bfloat16")
other = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-1.5B", dtype="bfloat16")
args = DPOConfig("out", per_device_train_batch_size=4, max_length=1024)
DPOTrainer(model, ref_model=other, args=args, train_dataset=rows).train()
""",
        {
            "model": "Qwen/Qwen2.5-1.5B",
            "trainer": "trl.DPOTrainer",
            **_BF16,
            "autocast": True,
            "micro_batch": 4,
            "seq_len": 1024,
            "checkpointing": "full",
            "loss": "chunked",
            "reference_model": True,
            "optimizer": "adamw_torch_fused",
        },
    ),
    Pair(
        "an evaluation with large batches and metrics",
        _AUTO.format(head="CausalLM")
        + """
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B", dtype="bfloat16")
tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-0.5B")
"""
        + _map("max_length=512")
        + """
args = TrainingArguments("out", bf16=True, per_device_train_batch_size=4, eval_strategy="steps",
    per_device_eval_batch_size=16)
Trainer(model=model, args=args, train_dataset=rows, eval_dataset=rows,
    compute_metrics=lambda found: {}).train()
""",
        {
            **_HF,
            "model": "Qwen/Qwen2.5-0.5B",
            **_BF16,
            "autocast": True,
            "micro_batch": 4,
            "seq_len": 512,
            "evaluation": True,
            "eval_batch": 16,
            "eval_rows": 16,
        },
    ),
    Pair(
        "texts in blocks of one length",
        _AUTO.format(head="CausalLM")
        + """
model = AutoModelForCausalLM.from_pretrained("openai-community/gpt2")
tokenizer = AutoTokenizer.from_pretrained("openai-community/gpt2")
size = 1024
def group(batch):
    joined = sum(batch["input_ids"], [])
    total = len(joined) // size * size
    blocks = [joined[at : at + size] for at in range(0, total, size)]
    return {"input_ids": blocks, "labels": blocks}
rows = rows.map(lambda batch: tokenizer(batch["text"]), batched=True).map(group, batched=True)
args = TrainingArguments("out", per_device_train_batch_size=8)
Trainer(model=model, args=args, train_dataset=rows).train()
""",
        {
            **_HF,
            "model": "openai-community/gpt2",
            "weights_dtype": "float32",
            "compute_dtype": "float32",
            "autocast": False,
            "seq_len": 1024,
            "fixed_length": True,
        },
    ),
    Pair(
        "accelerate's accumulation in a loop",
        _LOOP.format(
            top="from accelerate import Accelerator\naccelerator = Accelerator("
            "mixed_precision='bf16', gradient_accumulation_steps=8)\nrows = []",
            load='"meta-llama/Llama-3.2-1B", dtype=torch.float32',
            rows=4,
            more="optimizer = torch.optim.AdamW(model.parameters())\n"
            "model, optimizer = accelerator.prepare(model, optimizer)",
            body="    with accelerator.accumulate(model):\n"
            "        loss = model(**batch).loss\n        accelerator.backward(loss)\n"
            "        optimizer.step()\n        optimizer.zero_grad()",
        ),
        {
            "model": "meta-llama/Llama-3.2-1B",
            "trainer": "loop",
            "held_outputs": False,
            **_MIXED,
            "micro_batch": 4,
            "seq_len": 2048,
            "gradient_accumulation": 8,
            "optimizer": "adamw_torch",
        },
    ),
    Pair(
        "accumulation by a counter",
        _LOOP.format(
            top="rows, every = [], 4",
            load='"Qwen/Qwen2.5-0.5B", dtype=torch.bfloat16',
            rows=2,
            more="optimizer = torch.optim.AdamW(model.parameters())\nturn = 0",
            body="    loss = model(**batch).loss / every\n    loss.backward()\n"
            "    turn += 1\n    if turn % every == 0:\n        optimizer.step()\n"
            "        optimizer.zero_grad()",
        ),
        {
            "model": "Qwen/Qwen2.5-0.5B",
            "trainer": "loop",
            "held_outputs": False,
            **_BF16,
            "autocast": False,
            "micro_batch": 2,
            "seq_len": 2048,
            "gradient_accumulation": 4,
            "optimizer": "adamw_torch",
        },
    ),
    Pair(
        "an average of the weights by a copy",
        _LOOP.format(
            top="import copy\nrows = []",
            load='"EleutherAI/pythia-1.4b", dtype=torch.float32',
            rows=4,
            more="average = copy.deepcopy(model)\n"
            "optimizer = torch.optim.AdamW(model.parameters(), fused=True)",
            body="    with torch.autocast('cuda', dtype=torch.bfloat16):\n"
            "        loss = model(**batch).loss\n    loss.backward()\n"
            "    optimizer.step()\n    optimizer.zero_grad()",
        ),
        {
            "model": "EleutherAI/pythia-1.4b",
            "trainer": "loop",
            **_MIXED,
            "micro_batch": 4,
            "seq_len": 2048,
            "optimizer": "adamw_torch_fused",
            "frozen_models": {"EleutherAI/pythia-1.4b": "float32"},
        },
    ),
    Pair(
        "torch's own average",
        _LOOP.format(
            top="from torch.optim.swa_utils import AveragedModel\nrows = []",
            load='"Qwen/Qwen2.5-1.5B", dtype=torch.bfloat16',
            rows=2,
            more="mean = AveragedModel(model)\n"
            "optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)",
            body=_STEP,
        ),
        {
            "model": "Qwen/Qwen2.5-1.5B",
            "trainer": "loop",
            "held_outputs": False,
            **_BF16,
            "autocast": False,
            "micro_batch": 2,
            "seq_len": 2048,
            "optimizer": "sgd_momentum",
            "frozen_models": {"Qwen/Qwen2.5-1.5B": "bfloat16"},
        },
    ),
    Pair(
        "8-bit states in a loop, layers recomputed",
        _LOOP.format(
            top="import bitsandbytes as bnb\nrows = []",
            load='"Qwen/Qwen2.5-3B", dtype=torch.bfloat16',
            rows=2,
            more="model.gradient_checkpointing_enable()\n"
            "optimizer = bnb.optim.AdamW8bit(model.parameters())",
            body=_STEP,
        ),
        {
            "model": "Qwen/Qwen2.5-3B",
            "trainer": "loop",
            "held_outputs": False,
            **_BF16,
            "autocast": False,
            "micro_batch": 2,
            "seq_len": 2048,
            "optimizer": "AdamW8bit",
            "checkpointing": "full",
        },
    ),
    Pair(
        "a step for each weight in backward",
        _LOOP.format(
            top="rows = []",
            load='"Qwen/Qwen2.5-3B", dtype=torch.bfloat16',
            rows=1,
            more="steps = {one: torch.optim.AdamW([one]) for one in model.parameters()}\n"
            "def apply(one):\n    steps[one].step()\n    steps[one].zero_grad()\n"
            "for one in model.parameters():\n"
            "    one.register_post_accumulate_grad_hook(apply)",
            body="    model(**batch).loss.backward()",
        ),
        {
            "model": "Qwen/Qwen2.5-3B",
            "trainer": "loop",
            **_BF16,
            "autocast": False,
            "micro_batch": 1,
            "seq_len": 2048,
            "optimizer": "adamw_torch_in_backward",
        },
    ),
    Pair(
        "adapters over 4 bits that nothing prepares",
        _AUTO.format(head="CausalLM")
        + """
from peft import LoraConfig, get_peft_model
from transformers import BitsAndBytesConfig
small = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4",
    bnb_4bit_compute_dtype=torch.bfloat16)
model = AutoModelForCausalLM.from_pretrained("mistralai/Mistral-7B-v0.1", dtype=torch.bfloat16,
    quantization_config=small)
model = get_peft_model(model, LoraConfig(r=16, target_modules=["q_proj", "v_proj"]))
tokenizer = AutoTokenizer.from_pretrained("mistralai/Mistral-7B-v0.1")
"""
        + _map("max_length=2048")
        + """
args = TrainingArguments("out", bf16=True, per_device_train_batch_size=4)
Trainer(model=model, args=args, train_dataset=rows).train()
""",
        {
            **_HF,
            "model": "mistralai/Mistral-7B-v0.1",
            **_BF16,
            "autocast": True,
            "seq_len": 2048,
            "micro_batch": 4,
            "method": "qlora",
            "lora": {"r": 16, "target_modules": ["q_proj", "v_proj"]},
            "quantization": {
                "bits": 4,
                "type": "nf4",
                "compute_dtype": "bfloat16",
                "kbit_preparation": False,
            },
        },
    ),
    Pair(
        "the same, prepared",
        _AUTO.format(head="CausalLM")
        + """
from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training
from transformers import BitsAndBytesConfig
small = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4",
    bnb_4bit_compute_dtype=torch.bfloat16, bnb_4bit_use_double_quant=True)
model = AutoModelForCausalLM.from_pretrained("mistralai/Mistral-7B-v0.1", quantization_config=small)
model = get_peft_model(prepare_model_for_kbit_training(model), LoraConfig(r=64))
tokenizer = AutoTokenizer.from_pretrained("mistralai/Mistral-7B-v0.1")
"""
        + _map("max_length=1024")
        + """
args = TrainingArguments("out", bf16=True, per_device_train_batch_size=4)
Trainer(model=model, args=args, train_dataset=rows).train()
""",
        {
            **_HF,
            "model": "mistralai/Mistral-7B-v0.1",
            "autocast": True,
            "seq_len": 1024,
            "compute_dtype": "bfloat16",
            "micro_batch": 4,
            "method": "qlora",
            "checkpointing": "full",
            "lora": {"r": 64},
            "quantization": {
                "bits": 4,
                "type": "nf4",
                "compute_dtype": "bfloat16",
                "double_quant": True,
                "kbit_preparation": True,
            },
        },
    ),
    Pair(
        "adapters and recomputed layers by another module",
        _AUTO.format(head="CausalLM")
        + """
from parts.model import build
tokenizer = AutoTokenizer.from_pretrained("google/gemma-2-9b")
"""
        + _map("max_length=1024")
        + """
args = TrainingArguments("out", bf16=True, per_device_train_batch_size=2)
Trainer(model=build(), args=args, train_dataset=rows).train()
""",
        {
            **_HF,
            "model": "google/gemma-2-9b",
            **_BF16,
            "autocast": True,
            "seq_len": 1024,
            "micro_batch": 2,
            "method": "lora",
            "checkpointing": "full",
            "lora": {"r": 8, "target_modules": ["q_proj", "k_proj", "v_proj"]},
        },
        {
            "parts/__init__.py": "",
            "parts/model.py": "import torch\nfrom peft import LoraConfig, get_peft_model\n"
            "from transformers import AutoModelForCausalLM\n\ndef build():\n"
            "    model = AutoModelForCausalLM.from_pretrained('google/gemma-2-9b',"
            " dtype=torch.bfloat16)\n    model.gradient_checkpointing_enable()\n"
            "    how = LoraConfig(r=8, target_modules=['q_proj', 'k_proj', 'v_proj'])\n"
            "    return get_peft_model(model, how)\n",
        },
    ),
    Pair(
        "arguments that another module makes",
        _TRL.format(names="SFTTrainer")
        + """
from setup_of_run import arguments
SFTTrainer("Qwen/Qwen2.5-1.5B", args=arguments(), train_dataset=rows).train()
""",
        {
            **_SFT,
            "model": "Qwen/Qwen2.5-1.5B",
            "micro_batch": 16,
            "seq_len": 512,
            "packed": True,
            "optimizer": "adamw_8bit",
        },
        {
            "setup_of_run.py": "from trl import SFTConfig\n\ndef arguments():\n"
            "    return SFTConfig('out', per_device_train_batch_size=16, max_length=512,"
            " packing=True, optim='adamw_8bit')\n",
        },
    ),
    Pair(
        "summaries: long inputs, short labels",
        _AUTO.format(head="Seq2SeqLM").replace(
            "Trainer, TrainingArguments",
            "DataCollatorForSeq2Seq, Seq2SeqTrainer, Seq2SeqTrainingArguments",
        )
        + """
model = AutoModelForSeq2SeqLM.from_pretrained("google/flan-t5-large", dtype=torch.float32)
tokenizer = AutoTokenizer.from_pretrained("google/flan-t5-large")
def encode(batch):
    made = tokenizer(batch["text"], max_length=1024, truncation=True)
    short = tokenizer(text_target=batch["summary"], max_length=128, truncation=True)
    made["labels"] = short["input_ids"]
    return made
rows = rows.map(encode, batched=True)
args = Seq2SeqTrainingArguments("out", per_device_train_batch_size=8, bf16=True)
Seq2SeqTrainer(model=model, args=args, train_dataset=rows,
    data_collator=DataCollatorForSeq2Seq(tokenizer)).train()
""",
        {**_HF, "model": "google/flan-t5-large", **_MIXED, "seq_len": 1024, "label_len": 128},
    ),
    Pair(
        "samples by a server beside",
        _TRL.format(names="GRPOConfig, GRPOTrainer")
        + """
args = GRPOConfig("out", use_vllm=True, vllm_mode="server", per_device_train_batch_size=8,
    max_completion_length=1024, beta=0.04, model_init_kwargs={"dtype": "bfloat16"})
GRPOTrainer("Qwen/Qwen2.5-1.5B-Instruct", reward_funcs=len, args=args, train_dataset=rows).train()
""",
        {
            "model": "Qwen/Qwen2.5-1.5B-Instruct",
            "trainer": "trl.GRPOTrainer",
            **_BF16,
            "autocast": True,
            "checkpointing": "full",
            "completion_len": 1024,
            "prompt_len": 512,
            "group_size": 8,
            "micro_batch": 8,
            "loss": "chunked",
            "reference_model": True,
            "optimizer": "adamw_torch_fused",
            "generation": {"vllm": True},
        },
    ),
    Pair(
        "pictures",
        """
import torch
from datasets import load_dataset
from transformers import AutoModelForImageClassification, Trainer, TrainingArguments
rows = load_dataset("my/pictures", split="train")
model = AutoModelForImageClassification.from_pretrained("google/vit-large-patch16-224",
    num_labels=10, dtype=torch.float32, ignore_mismatched_sizes=True)
args = TrainingArguments("out", per_device_train_batch_size=64, fp16=True)
Trainer(model=model, args=args, train_dataset=rows).train()
""",
        {
            **_HF,
            "model": "google/vit-large-patch16-224",
            "head": "classes",
            "labels": 10,
            "weights_dtype": "float32",
            "compute_dtype": "float16",
            "autocast": True,
            "micro_batch": 64,
            "seq_len": 197,
            "fixed_length": True,
        },
    ),
    Pair(
        "torch's sharding in a loop",
        _LOOP.format(
            top="from torch.distributed.fsdp import fully_shard\nrows = []",
            load='"Qwen/Qwen2.5-7B", dtype=torch.bfloat16',
            rows=1,
            more="for layer in model.model.layers:\n    fully_shard(layer)\n"
            "fully_shard(model)\nmodel.gradient_checkpointing_enable()\n"
            "optimizer = torch.optim.AdamW(model.parameters(), fused=True)",
            body=_STEP,
        ),
        {
            "model": "Qwen/Qwen2.5-7B",
            "trainer": "loop",
            "held_outputs": False,
            **_BF16,
            "autocast": False,
            "micro_batch": 1,
            "seq_len": 2048,
            "optimizer": "adamw_torch_fused",
            "checkpointing": "full",
            "sharding": "fsdp2",
            "world_size": 8,
        },
        {"job.sh": "torchrun --nproc_per_node=8 train.py\n"},
    ),
    Pair(
        "a small student and its large teacher",
        _LOOP.format(
            top="import torch.nn.functional as F\nrows = []\n"
            'teacher = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-7B",'
            " dtype=torch.bfloat16).cuda().eval()",
            load='"Qwen/Qwen2.5-0.5B", dtype=torch.bfloat16',
            rows=4,
            more="optimizer = torch.optim.AdamW(model.parameters())",
            body="    with torch.no_grad():\n        wanted = teacher(**batch).logits\n"
            "    found = model(**batch).logits\n"
            "    loss = F.kl_div(F.log_softmax(found, dim=-1),"
            " F.softmax(wanted, dim=-1), reduction='batchmean')\n"
            "    loss.backward()\n    optimizer.step()\n    optimizer.zero_grad()",
        ),
        {
            "model": "Qwen/Qwen2.5-0.5B",
            "trainer": "loop",
            **_BF16,
            "autocast": False,
            "micro_batch": 4,
            "seq_len": 2048,
            "optimizer": "adamw_torch",
            "frozen_models": {"Qwen/Qwen2.5-7B": "bfloat16"},
        },
    ),
    Pair(
        "questions and answers in one batch",
        VECTORS.format(
            collate="    questions = [row['question'] for row in rows]\n"
            "    answers = [row['answer'] for row in rows]\n"
            "    return tokenizer(questions + answers, **how)",
            step="    first, second = model(**batch).last_hidden_state[:, 0].chunk(2)",
        ),
        {**_VECTOR, "micro_batch": 64},
    ),
    Pair(
        "questions, then answers, one loss",
        VECTORS.format(
            collate="    return [tokenizer([row[at] for row in rows], **how) for at in (0, 1)]",
            step="    first = model(**batch[0]).last_hidden_state[:, 0]\n"
            "    second = model(**batch[1]).last_hidden_state[:, 0]",
        ),
        {**_VECTOR, "micro_batch": 64},
    ),
    Pair(
        "one text made of two",
        VECTORS.format(
            collate="    texts = [row['question'] + row['answer'] for row in rows]\n"
            "    return tokenizer(texts, **how)",
            step="    first, second = model(**batch).last_hidden_state[:, 0].chunk(2)",
        ),
        {**_VECTOR, "micro_batch": 32},
    ),
    Pair(
        "a loop around the backward pass",
        _LOOP.format(
            top="rows = []",
            load='"Qwen/Qwen2.5-0.5B", dtype=torch.bfloat16',
            rows=2,
            more="optimizer = torch.optim.AdamW(model.parameters())",
            body="    for _ in range(4):\n        (model(**batch).loss / 4).backward()\n"
            "    optimizer.step()\n    optimizer.zero_grad()",
        ),
        {
            "model": "Qwen/Qwen2.5-0.5B",
            "trainer": "loop",
            "held_outputs": False,
            **_BF16,
            "autocast": False,
            "micro_batch": 2,
            "seq_len": 2048,
            "gradient_accumulation": 4,
            "optimizer": "adamw_torch",
        },
    ),
    Pair(
        "rows of one length from a file of tokens",
        _LOOP.format(
            top="from torch.utils.data import Dataset\n\nclass Tokens(Dataset):\n"
            "    def __init__(self, ids, size):\n        self.ids, self.size = ids, size\n"
            "    def __getitem__(self, at):\n"
            "        row = self.ids[at * self.size : (at + 1) * self.size]\n"
            "        return {'input_ids': row, 'labels': row}\n"
            "rows = Tokens(torch.load('ids.pt'), 4096)",
            load='"Qwen/Qwen2.5-0.5B", dtype=torch.bfloat16',
            rows=1,
            more="optimizer = torch.optim.AdamW(model.parameters())",
            body=_STEP,
        ),
        {
            "model": "Qwen/Qwen2.5-0.5B",
            "trainer": "loop",
            "held_outputs": False,
            **_BF16,
            "autocast": False,
            "micro_batch": 1,
            "seq_len": 4096,
            "fixed_length": True,
            "optimizer": "adamw_torch",
        },
    ),
    Pair(
        "texts with pictures, padded by a processor",
        _TRL.format(names="SFTConfig, SFTTrainer")
        + """
from transformers import AutoModelForImageTextToText, AutoProcessor
name = "Qwen/Qwen2.5-VL-3B-Instruct"
model = AutoModelForImageTextToText.from_pretrained(name, dtype="bfloat16")
processor = AutoProcessor.from_pretrained(name)
def collate(rows):
    texts, images = [row["text"] for row in rows], [row["image"] for row in rows]
    return processor(text=texts, images=images, truncation=True, max_length=3000)
args = SFTConfig("out", per_device_train_batch_size=2, max_length=None)
SFTTrainer(model, args=args, train_dataset=rows, data_collator=collate).train()
""",
        {
            **_SFT,
            "model": "Qwen/Qwen2.5-VL-3B-Instruct",
            **_BF16,
            "micro_batch": 2,
            "seq_len": 3000,
        },
    ),
)
