"""Eight scripts that do not fit 24 GB, and what ``--fit`` finds for them."""

from __future__ import annotations

from typing import NamedTuple

from memlint.api.lookup import Api
from memlint.api.target_versions import newest
from memlint.memory.fit import Fitted, Measure, candidates, fit, run_of
from memlint.memory.prices import Run
from memlint.memory.settings import with_pricing
from memlint.rule import registry
from memlint.rule.findings import Applicability
from memlint.rule.savings import Pricing
from memlint.run.engine import check_source
from memlint.runs.run_settings import settings_of
from memlint.script.model import build_script
from memlint.source import Source

GPU = "rtx4090-24gb"

_HEAD = """\
import torch
from datasets import load_dataset
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer, TrainingArguments
from trl import SFTTrainer

tokenizer = AutoTokenizer.from_pretrained("{model}")
model = AutoModelForCausalLM.from_pretrained("{model}", dtype=torch.bfloat16)
"""
_ADAPTERS = """\
model = get_peft_model(model, LoraConfig(r=16, target_modules=["q_proj", "v_proj"]))
"""
_TRAINER = """\

def tokenize(rows):
    return tokenizer(rows["text"], truncation=True, max_length={length})


data = load_dataset("a", split="train").map(tokenize, batched=True)
args = TrainingArguments("out", per_device_train_batch_size={rows})
trainer = Trainer(model=model, args=args, train_dataset=data)
trainer.train()
"""
_SFT = """\
data = load_dataset("a", split="train")
args = TrainingArguments("out", per_device_train_batch_size={rows})
trainer = SFTTrainer(model=model, args=args, train_dataset=data)
trainer.train()
"""


class Case(NamedTuple):
    """A script by its parts."""

    model: str
    rows: int
    length: int
    adapters: bool = False
    sft: bool = False

    @property
    def name(self) -> str:
        kind = "SFTTrainer" if self.sft else "Trainer"
        how = "LoRA" if self.adapters else "full"
        return f"{self.model} {how} {self.rows} x {self.length} {kind}"

    @property
    def text(self) -> str:
        body = _HEAD + (_ADAPTERS if self.adapters else "") + (_SFT if self.sft else _TRAINER)
        return body.format(model=self.model, rows=self.rows, length=self.length)


CASES = (
    Case("Qwen/Qwen2.5-0.5B", 16, 1024),
    Case("Qwen/Qwen2.5-1.5B", 8, 1024),
    Case("meta-llama/Llama-3.2-1B", 6, 1024),
    Case("Qwen/Qwen3-1.7B", 4, 2048),
    Case("meta-llama/Llama-3.2-3B", 8, 1024, adapters=True),
    Case("Qwen/Qwen2.5-3B", 4, 2048, adapters=True),
    Case("mistralai/Mistral-7B-v0.1", 2, 2048, adapters=True),
    Case("Qwen/Qwen2.5-3B", 8, 1024, adapters=True, sft=True),
)


def fitted(case: Case) -> tuple[Run, Fitted, tuple[Measure, ...]]:
    """The run, the set that is found for it, and its safe candidates."""
    api = Api(newest())
    source = Source("train.py", case.text)
    values = settings_of(build_script(source, api))
    assert values is not None
    run = run_of(with_pricing(values, Pricing(GPU)))
    found = check_source(source, registry.load(registry.selected(None)), api)
    safe = [each for each in candidates(run, found) if each.kind is Applicability.SAFE]
    return run, fit(run, found), tuple(safe)
