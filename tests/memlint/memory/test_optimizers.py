"""What optimizers keep for a weight, as scripts make them.

Bytes a number of a 1024 x 512 matrix after two steps, as the libraries' own classes keep them
(torch 2.13, torchao 0.18, bitsandbytes 0.50, schedulefree 1.4, lion-pytorch 0.2, adam-mini 1.1,
prodigyopt 1.1, came-pytorch 0.1, torch-optimi 0.3).
"""

from __future__ import annotations

from typing import Any

import pytest

from memlint.api.lookup import Api
from memlint.api.target_versions import newest
from memlint.memory import estimate
from memlint.memory.optimizers import find_optimizer, state_bytes
from memlint.runs import runs_of
from memlint.runs.run_settings import settings_of
from memlint.script.call_settings import UNSURE
from memlint.script.model import build_script
from memlint.source import Source

LOOP = """\
import torch
from transformers import AutoModelForCausalLM
{imports}

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-3B", dtype=torch.{dtype}).cuda()
model.train()
{make}
for batch in loader:
    model(**batch, use_cache=False).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""
ALL = "optimizer = {}(model.parameters(), lr=1e-5)"
# Imports, what makes the optimizer, bytes a number for float32 and for bf16 weights.
CLASSES = {
    "torch's": ("", ALL.format("torch.optim.AdamW"), 8.0, 4.0),
    "torchao's, 8 bits": ("import torchao", ALL.format("torchao.optim.AdamW8bit"), 2.03, 2.03),
    "torchao's, 4 bits": ("import torchao", ALL.format("torchao.optim.AdamW4bit"), 1.06, 1.06),
    "torchao's, fp8": ("import torchao", ALL.format("torchao.optim.AdamWFp8"), 2.03, 2.03),
    "torchao's plain one": ("import torchao", ALL.format("torchao.optim._AdamW"), 8.0, 4.0),
    "32 bits of bitsandbytes": (
        "import bitsandbytes as bnb", ALL.format("bnb.optim.AdamW"), 8.0, 8.0
    ),
    "8 bits by an option": (
        "import bitsandbytes as bnb",
        "optimizer = bnb.optim.AdamW(model.parameters(), optim_bits=8)",
        2.03,
        2.03,
    ),
    "8 bits": ("import bitsandbytes as bnb", ALL.format("bnb.optim.AdamW8bit"), 2.03, 2.03),
    "8 bits of Adam without decay": (
        "import bitsandbytes as bnb", ALL.format("bnb.optim.Adam8bit"), 2.03, 2.03
    ),
    "8 bits of momentum": (
        "import bitsandbytes as bnb", ALL.format("bnb.optim.SGD8bit"), 1.02, 1.02
    ),
    # By its source: a scale of 16 bits for 32 numbers of 8 bits.
    "FlashOptim's": (
        "from flashoptim import FlashAdamW", ALL.format("FlashAdamW"), 2.125, 2.125
    ),
    "Lion": ("from lion_pytorch import Lion", ALL.format("Lion"), 4.0, 2.0),
    "Lion of bitsandbytes": ("from bitsandbytes.optim import Lion", ALL.format("Lion"), 4.0, 4.0),
    "schedule-free": ("import schedulefree as sf", ALL.format("sf.AdamWScheduleFree"), 8.0, 4.0),
    "schedule-free SGD": (
        "from schedulefree import SGDScheduleFree", ALL.format("SGDScheduleFree"), 4.0, 2.0
    ),
    "Adam-mini": (
        "from adam_mini import Adam_mini",
        "optimizer = Adam_mini(named_parameters=model.named_parameters(), lr=1e-5)",
        4.0,
        2.0,
    ),
    "Prodigy": ("from prodigyopt import Prodigy", ALL.format("Prodigy"), 16.0, 8.0),
    "CAME": ("from came_pytorch import CAME", ALL.format("CAME"), 4.0, 4.0),
    "optimi's": ("from optimi import AdamW", ALL.format("AdamW"), 8.0, 6.0),
    "Muon": ("", ALL.format("torch.optim.Muon"), 4.0, 2.0),
}  # fmt: skip


def settings(text: str) -> dict[str, Any]:
    found = settings_of(build_script(Source("a.py", text), Api(newest())))
    assert found is not None
    return found


def written(imports: str, make: str, dtype: str = "float32") -> str:
    return LOOP.format(imports=imports, make=make, dtype=dtype)


@pytest.mark.parametrize("name", CLASSES)
def test_states_are_as_large_as_the_class_makes_them(name: str) -> None:
    imports, make, wide, narrow = CLASSES[name]
    for width, wanted in ((4, wide), (2, narrow)):
        optimizer = find_optimizer(settings(written(imports, make))["optimizer"])
        assert optimizer is not None
        shape = {"rows": 1024, "columns": 512}
        size = state_bytes(optimizer, 1024 * 512, width, **shape)
        assert size / (1024 * 512) == pytest.approx(wanted, rel=0.01)
        # The Trainer alone keeps those of embeddings in 32 bits.
        assert state_bytes(optimizer, 1024 * 512, width, embedding=True, **shape) == size


MUON = "torch.optim.Muon([p for p in model.parameters() if p.ndim == 2])"
GROUPS = """\
matrices = [p for n, p in model.named_parameters() if p.ndim == 2 and "embed" not in n]
rest = [p for n, p in model.named_parameters() if p.ndim != 2 or "embed" in n]
optimizers = [Muon(matrices, lr=0.02), torch.optim.AdamW(rest, lr=3e-4)]
optimizer = Both(*optimizers)"""


def gib_of_states(text: str) -> float:
    peak = estimate({**settings(text), "seq_len": 512}).peak
    return sum(one.bytes for one in peak.tensors if one.kind == "optimizer states") / 2**30


def test_an_optimizer_of_the_vectors_has_no_states_for_the_matrices() -> None:
    """3.09 billion numbers, of which the embeddings have 311 million."""
    vectors = "optimizer = torch.optim.AdamW([p for p in model.parameters() if p.ndim != 2])"
    pair = written("", f"muon = {MUON}\n{vectors}")
    assert gib_of_states(pair) == pytest.approx(4 * 3.086e9 / 2**30, rel=0.01)
    with_tables = written("from muon import Muon", GROUPS)
    assert gib_of_states(with_tables) == pytest.approx(4 * 3.397e9 / 2**30, rel=0.01)


@pytest.mark.parametrize("name", ["PagedAdam", "PagedAdam32bit", "PagedAdam8bit", "PagedAdamW"])
def test_pages_of_states_are_not_torchs(name: str) -> None:
    text = written("import bitsandbytes as bnb", ALL.format(f"bnb.optim.{name}"))
    assert settings(text)["optimizer"].startswith("Paged")
    assert gib_of_states(text) == 0


def test_states_on_the_host_are_not_on_the_gpu() -> None:
    imports = "from torchao.optim import CPUOffloadOptimizer"
    make = "optimizer = CPUOffloadOptimizer(model.parameters(), torch.optim.AdamW{}, lr=1e-5)"
    kept, gone = (
        settings(written(imports, make.format(more))) for more in ("", ", offload_gradients=True")
    )
    assert (kept["optimizer"], kept["offload"]) == ("AdamW", "optimizer")
    assert gib_of_states(written(imports, make.format(""))) == 0
    peaks = [estimate({**one, "seq_len": 512}).peak.total for one in (kept, gone)]
    assert peaks[0] - peaks[1] > 0.5 * 4 * 3.086e9


def test_weights_that_are_stepped_one_by_one_need_no_copies() -> None:
    make = "optimizer = torch.optim.AdamW(model.parameters(){})"
    peaks = [
        phase.total
        for more in ("", ", foreach=False", ", fused=True")
        for phase in estimate({**settings(written("", make.format(more))), "seq_len": 512}).phases
        if phase.name == "optimizer step"
    ]
    assert peaks[0] > peaks[1] > peaks[2]
    assert (peaks[0] - peaks[2]) / (4 * 3.086e9) == pytest.approx(1, rel=0.05)


TRAINER = """\
import torch
from torchao.optim import AdamW8bit
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-3B", dtype=torch.float32)
args = TrainingArguments("out", bf16=True)
Trainer(model, args, train_dataset=rows, optimizer_cls_and_kwargs=(AdamW8bit, {"lr": 1e-5})).train()
"""


def test_a_trainers_optimizer_may_be_named_by_its_class() -> None:
    assert settings(TRAINER)["optimizer"] == "adamw_torch_8bit"


def test_an_optimizer_that_a_trainer_is_given_is_not_its_own() -> None:
    script = build_script(Source("a.py", TRAINER), Api(newest()))
    values = {(run.optimizer.value, run.in_backward.value) for run in runs_of(script)}
    assert values == {(UNSURE, UNSURE)}


def test_a_switch_chooses_the_optimizer_that_its_default_does() -> None:
    text = """\
import argparse
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

parser = argparse.ArgumentParser()
parser.add_argument("--plain", action="store_true")
given = parser.parse_args()
args = TrainingArguments("out", optim="adamw_torch" if given.plain else "adamw_8bit")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
Trainer(model, args, train_dataset=rows).train()
"""
    assert settings(text)["optimizer"] == "adamw_8bit"
