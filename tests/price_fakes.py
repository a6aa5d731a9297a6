"""Holds prices of findings against the libraries themselves, without a GPU.

    python -m tests.price_fakes [--only TEXT]

Each case is a script with faults. Its settings are read and its findings priced. Then the run is
made of real transformers models under fake tensors, as ``tests.memory_fakes`` does, as it is and
once more for each finding with the settings that its fix changes. Shown is what the peak falls by,
beside the price. Models have four layers, here and in the price. States of 8 bits, streamed
weights and quantized ones need a GPU and are left out, and so is what lowers another phase.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import sys
import time
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple
from unittest import mock

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from transformers import masking_utils

from memlint.api.lookup import Api
from memlint.api.target_versions import newest
from memlint.memory import Settings
from memlint.memory.prices import Changes, Run, effect_of, read_run
from memlint.rule import registry
from memlint.rule.savings import Pricing
from memlint.run.engine import check_source
from memlint.runs.run_settings import settings_of
from memlint.script.model import build_script
from memlint.source import Source
from tests.fake_steps import LiveBytes, give_storage, optimizer_of, shape_of, train_step
from tests.fit_fakes import Fake
from tests.memory_fakes import GIB, Cell

LAYERS = 4
# What a fake run has; the effect of a finding must be among it.
_FAKED = frozenset(
    {
        *("loss", "checkpointing", "weights_dtype", "compute_dtype", "autocast", "micro_batch"),
        *("seq_len", "attention", "held_outputs", "reference_model", "copies", "optimizer"),
        *("method", "lora", "gradient_accumulation", "zeroed_gradients", "head_in_tiles"),
        "held_cache",
    }
)

_TOP = """\
import copy

import torch
from datasets import load_dataset
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer, TrainingArguments
from trl import DPOConfig, DPOTrainer, SFTConfig, SFTTrainer

name = "{model}"
tokenizer = AutoTokenizer.from_pretrained(name)


def tokenize(rows):
    return tokenizer(rows["text"], truncation=True, max_length={tokens})


data = load_dataset("a", split="train").map(tokenize, batched=True)
"""
_TRAINER = """\
model = AutoModelForCausalLM.from_pretrained(name, {load})
args = TrainingArguments("out", per_device_train_batch_size={rows}, {more})
Trainer(model=model, args=args, train_dataset=data).train()
"""
_LOOP = """\
model = AutoModelForCausalLM.from_pretrained(name, {load}).cuda()
model.train()
{more}
loader = DataLoader(data, batch_size={rows}, collate_fn=collate)
for batch in loader:
    outputs = model(**batch.to("cuda"))
    outputs.loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""
_ACCELERATED = """\
from accelerate import Accelerator

model = AutoModelForCausalLM.from_pretrained(name, {load})
{more}
accelerator = Accelerator(mixed_precision="bf16")
loader = DataLoader(data, batch_size={rows}, collate_fn=collate)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
model.train()
for batch in loader:
    outputs = model(**batch)
    accelerator.backward(outputs.loss)
    optimizer.step()
    optimizer.zero_grad()
"""
_ADAM = "optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)"
_PAIRS = """\
model = AutoModelForCausalLM.from_pretrained(name, {load})
{more}
args = DPOConfig("out", per_device_train_batch_size={rows}, max_length={tokens})
data = load_dataset("pairs", split="train")
DPOTrainer(model=model, args=args, train_dataset=data).train()
"""


class Case(NamedTuple):
    """A script by its parts."""

    name: str
    body: str
    model: str
    rows: int
    tokens: int
    load: str = "dtype=torch.bfloat16"
    more: str = ""

    @property
    def text(self) -> str:
        return (_TOP + self.body).format(**self._asdict())


_KEPT = "zero_grad(set_to_none=False)"
_FLOAT = "dtype=torch.float32"
CASES = (
    Case("Trainer", _TRAINER, "Qwen/Qwen2.5-0.5B", 8, 1024),
    Case("Trainer, short rows", _TRAINER, "meta-llama/Llama-3.2-1B", 2, 512, more="bf16=True"),
    Case("Trainer in float32", _TRAINER, "Qwen/Qwen2.5-0.5B", 4, 1024, _FLOAT),
    Case("Trainer, mixed", _TRAINER, "Qwen/Qwen3-1.7B", 4, 1024, _FLOAT, "bf16=True"),
    Case("Trainer, eager attention", _TRAINER, "Qwen/Qwen3-0.6B", 4, 2048,
         'dtype=torch.bfloat16, attn_implementation="eager"', "gradient_checkpointing=False"),
    Case("Trainer, checkpointed", _TRAINER, "Qwen/Qwen2.5-1.5B", 8, 2048,
         more="gradient_checkpointing=True"),
    Case("loop", _LOOP, "Qwen/Qwen2.5-0.5B", 4, 1024, more=_ADAM),
    Case("loop in float32", _LOOP, "meta-llama/Llama-3.2-1B", 2, 1024, _FLOAT, _ADAM),
    Case("loop, small batch", _LOOP, "Qwen/Qwen2.5-1.5B", 1, 256, more=_ADAM),
    Case("loop, small batch, fused", _LOOP, "Qwen/Qwen3-0.6B", 1, 256,
         more="optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)"),
    Case("loop that keeps its gradients", _LOOP.replace("zero_grad()", _KEPT), "Qwen/Qwen3-1.7B",
         2, 512, more=_ADAM),
    Case("accelerated loop", _ACCELERATED, "Qwen/Qwen2.5-0.5B", 4, 1024, _FLOAT, _ADAM),
    Case("loop with a copy", _LOOP, "EleutherAI/pythia-1b", 2, 512,
         more="kept = copy.deepcopy(model)\n" + _ADAM),
    Case("pairs", _PAIRS, "Qwen/Qwen2.5-0.5B", 4, 1024),
    Case("pairs of a larger model", _PAIRS, "Qwen/Qwen2.5-1.5B", 2, 512),
    Case("texts for SFT", _TRAINER.replace("Trainer(", "SFTTrainer(").replace(
         "TrainingArguments(", "SFTConfig("), "Qwen/Qwen3-0.6B", 8, 1024,
         more='gradient_checkpointing=False, max_length=1024, loss_type="nll"'),
)  # fmt: skip


def config_of(model: str) -> dict[str, Any]:
    """A few layers. Tables are not tied: under fake tensors, autograd adds their two gradients into
    a third tensor, where a GPU adds them in place."""
    return {**Cell(model, layers=LAYERS).config(), "tie_word_embeddings": False}


class PricedRun(Fake):
    """A run of some settings: with what stands beside it, and what a loop's name holds."""

    def __init__(self, known: Settings) -> None:
        super().__init__(known, LAYERS)
        self.known = known
        names = "attention", "held_outputs", "held_cache", "float32_outputs", "zeroed_gradients"
        self.settings |= {name: getattr(known, name) for name in names}

    def config(self) -> dict[str, Any]:
        return config_of(self.model)

    def measured(self) -> LiveBytes:
        known, settings = self.known, self.settings
        count = bool(known.reference_model) + (known.copies or 0)
        model, *beside = [self.built() for _ in range(1 + count)]
        with FakeTensorMode(allow_non_fake_inputs=True):
            counter = LiveBytes()
            for each in (model, *beside):
                give_storage(each)
                for parameter in each.parameters():
                    counter.watch(parameter, "parameter")
            optimizer = optimizer_of(str(known.optimizer), model)
            ids = torch.randint(0, 100, shape_of(settings))
            held: list[Any] = []
            with counter, _masks(known.trainer != "loop"):
                for _ in range(2):
                    if known.reference_model:
                        _step_of_pairs(model, beside[0], ids, optimizer)
                    else:
                        train_step(model, ids, optimizer, settings, held)
        return counter


def _masks(given: bool) -> contextlib.AbstractContextManager[object]:
    """Whether attention gets a mask, which its collator makes for a trainer. Without one it asks
    the values of positions whether rows are packed, and fakes have none."""
    if given:
        return contextlib.nullcontext()
    return mock.patch.object(masking_utils, "find_packed_sequence_indices", return_value=None)


def _step_of_pairs(model: Any, reference: Any, ids: torch.Tensor, optimizer: Any) -> None:
    """As TRL's DPO trainer, in the order of its loss."""
    policy = model(input_ids=ids, labels=ids, fused_lm_head=True).log_probs.sum(-1)
    with torch.no_grad():
        start = reference(input_ids=ids, labels=ids, fused_lm_head=True).log_probs.sum(-1)
    chosen, rejected = (policy - start).chunk(2)
    (-torch.nn.functional.logsigmoid(chosen - rejected).mean()).backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


class Shown(NamedTuple):
    """A finding, and by how many bytes its fix lowers the peak: by its price, and as counted."""

    code: str
    price: int
    counted: int

    @property
    def error(self) -> float:
        return self.price / self.counted - 1 if self.counted else 1.0


def prices(case: Case) -> Iterator[Shown]:
    """Yield the findings of a script whose fixes can be faked and lower its peak."""
    api, source = Api(newest()), Source("train.py", case.text)
    values = settings_of(build_script(source, api))
    assert values is not None
    run = read_run({**values, "model": {"config": config_of(case.model)}}, Pricing())
    assert run is not None
    before = _counted(case, run, ())
    codes: set[str] = set()
    for each in check_source(source, registry.load(registry.selected(None)), api):
        changes = run.settled(effect_of(each, run.known))
        saving = run.saving(changes) if changes and _FAKED.issuperset(dict(changes)) else None
        if saving is None or not saving.of_peak or each.code in codes or _needs_gpu(changes):
            continue
        codes.add(each.code)
        after = _counted(case, run, changes)
        yield Shown(each.code, (saving.low + saving.high) // 2, before - after)


def _needs_gpu(changes: Changes) -> bool:
    return "8bit" in str(dict(changes).get("optimizer", ""))


def _counted(case: Case, run: Run, changes: Changes) -> int:
    return PricedRun(run.with_changes(changes)._replace(model=case.model)).measured().peak


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="scripts whose name contains this")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    errors: list[float] = []
    for case in CASES:
        if options.only not in case.name:
            continue
        start = time.perf_counter()
        for shown in prices(case):
            errors.append(abs(shown.error))
            sys.stdout.write(
                f"{shown.error:+7.1%} {shown.price / GIB:7.3f} for {shown.counted / GIB:7.3f} GiB  "
                f"{shown.code} {case.name}, {case.model} {case.rows} x {case.tokens}\n"
            )
            sys.stdout.flush()
        sys.stdout.write(f"    ({time.perf_counter() - start:.0f} s)\n")
    wrong = sum(error > 0.1 for error in errors)
    sys.stdout.write(
        f"{len(errors)} prices: median {statistics.median(errors):.1%}, worst {max(errors):.1%}, "
        f"{wrong} wrong by more than 10%\n"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
