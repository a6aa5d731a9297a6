"""Guesses from words: each is wrong in some script, and nothing worse than silence follows."""

from __future__ import annotations

import ast
import json
from unittest.mock import Mock

import pytest

from memlint.api.lookup import Api
from memlint.api.target_versions import newest
from memlint.rule.registry import load
from memlint.run.engine import check_source
from memlint.script.guesses import is_held_out_name, matches, may_ask_for_a_version, may_use
from memlint.source import Source
from memlint.source.reading import read_source
from tests.memlint.script.scripts import read
from tests.rules.fixing import found

LOOP = """
from transformers import AutoModelForCausalLM

net = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", device_map="cuda")
net.train()
for rows in loader:
    net(**rows).loss.backward()
    stepper.step()
    stepper.zero_grad()
"""


def codes(text: str, *asked: str) -> list[str]:
    return [one.code for one in found(text, *asked)]


@pytest.mark.parametrize(
    "line",
    [
        "# gradient_checkpointing_enable",
        "checkpointing = False",
        "def checkpointing(rows): pass",
        "print('no checkpointing here')",
        '"""checkpointing"""',
    ],
)
def test_what_only_people_read_says_nothing(line: str) -> None:
    assert codes(f"{line}\n{LOOP}", "MEM301") == ["MEM301"]
    assert not may_use(read(line), "checkpointing")


@pytest.mark.parametrize(
    "line",
    [
        "net.checkpointing()",
        "from lib import checkpointing",
        "import lib.checkpointing",
        "build(checkpointing=True)",
        "getattr(net, 'enable_checkpointing')()",
        "options['checkpointing'] = True",
    ],
)
def test_names_of_code_are_taken_for_what_they_say(line: str) -> None:
    """Wrong where ``lib.checkpointing`` writes files: the loop is not reported."""
    assert may_use(read(line), "checkpointing")
    assert codes(f"{line}\n{LOOP}", "MEM301") == []


@pytest.mark.parametrize("name", ["eval_rows", "testRows", "TestSet", "rows_valid", "dev"])
def test_names_of_held_out_data(name: str) -> None:
    assert is_held_out_name(name)


@pytest.mark.parametrize(
    "name", ["latest", "protested", "device", "train_test_rows", "retrieval", "rows", "contest"]
)
def test_words_within_other_words_mean_nothing(name: str) -> None:
    assert not is_held_out_name(name)


def test_a_pattern_is_looked_for_once() -> None:
    """Each finding may ask, and all texts of a long notebook are read for it."""
    script, pattern = read(LOOP), Mock(**{"search.return_value": None})
    assert not any(matches(script, pattern) for _ in range(3))
    assert pattern.search.call_count == 1 + len(script._run.texts)


MAPPED = """
from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer, TrainingArguments

words = AutoTokenizer.from_pretrained("Qwen/Qwen3-8B")


def prepare(row):
    return words(row["text"], padding="max_length", max_length=4096, truncation=True)


{name} = load("rows")
{name} = {name}.map(prepare)
store({name})
Trainer(AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B"), TrainingArguments("out")).train()
"""


def test_data_called_for_evaluation_is_left_alone() -> None:
    """Wrong where ``store`` keeps it for training: nothing is said of it."""
    assert codes(MAPPED.format(name="rows"), "MEM102") == ["MEM102"]
    assert codes(MAPPED.format(name="test_rows"), "MEM102") == []


GUARDED = """
from transformers import TrainingArguments

if {name}:
    TrainingArguments("out", evaluation_strategy="steps")
"""


def test_a_condition_that_speaks_of_versions_is_believed() -> None:
    """Wrong where it is the version of something else: nothing is said of what it guards."""
    script = read("if data_version:\n    pass\n")
    (test,) = (one.test for one in script.nodes(ast.If))
    assert may_ask_for_a_version(script, "TrainingArguments", test)
    assert codes(GUARDED.format(name="large"), "MEM901") == ["MEM901"]
    assert codes(GUARDED.format(name="data_version"), "MEM901") == []
    named = 'new = packages["transformers"].version > (4, 46)\n'
    assert codes(named + GUARDED.format(name="new"), "MEM901") == []
    assert codes("new = packages()\n" + GUARDED.format(name="new"), "MEM901") == ["MEM901"]
    asks = "def takes(cls, name):\n    return name in signature(cls).parameters\n"
    asked = GUARDED.format(name='takes(TrainingArguments, "evaluation_strategy")')
    assert codes(asks + asked, "MEM901") == []
    assert codes(asks.replace("signature(cls)", "old") + asked, "MEM901") == ["MEM901"]


HALF = """
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

net = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B")
Trainer(net, TrainingArguments("out", fp16=True), train_dataset=rows).train()
"""


def test_a_gpu_that_is_named_is_believed() -> None:
    """Wrong where a comment speaks of another machine: nothing is said of fp16."""
    assert codes(HALF, "MEM403") == ["MEM403"]
    assert codes(f"# better than on the T4 of last year\n{HALF}", "MEM403") == []


DEVICES = {
    "net.to('cuda')": True,
    "net.to(place)": True,
    "net.to(device='cuda:1')": True,
    "import torch\nnet.to(torch.device('cuda' if here else 'cpu'))": True,
    "net.cuda()": True,
    "import torch\nrows = torch.zeros(3, device='cuda')": True,
    "from accelerate import Accelerator\nAccelerator()": True,
    "import torch\ntorch.distributed.init_process_group('nccl')": True,
    "load(device_map='auto')": True,
    "load(device_map=None)": False,
    "load(device_map='cpu')": False,
    "net.to('cpu')": False,
    "import torch\nnet.to(torch.float16)": False,
    "import torch\nnet.to(dtype=torch.float16)": False,
    "import torch\nprint(torch.cuda.is_available())": False,
    "# cuda, device, accelerate, fsdp": False,
    "device = 'fsdp'": False,
}


@pytest.mark.parametrize("text", DEVICES)
def test_a_gpu_is_known_by_what_is_called(text: str) -> None:
    assert read(text).on_gpu is DEVICES[text]


EVALUATED = """
import torch

model.eval()
for rows in loader:
    total += model(rows).loss.item()  # {said}
"""


def test_who_writes_of_what_is_missing_has_a_reason() -> None:
    """Wrong where the comment says that it is forgotten: nothing is said of the pass."""
    assert codes(EVALUATED.format(said="the held out rows"), "MEM703") == ["MEM703"]
    assert codes(EVALUATED.format(said="no_grad is yet to come"), "MEM703") == []


FULL = """
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

net = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", dtype="float32")
args = TrainingArguments(
    "out",
    dataloader_num_workers=2,  # CPU cores
    fp16=False,  # {said}
)
Trainer(net, args, train_dataset=rows).train()
"""


def test_half_precision_that_is_off_for_a_machine_is_believed() -> None:
    """Wrong where the comment is older than the machine: nothing is said of the run."""
    assert codes(FULL.format(said="it dumps"), "MEM402") == ["MEM402"]
    assert codes(FULL.format(said="unstable on MPS"), "MEM402") == []


STREAMED = """
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B")
model = get_peft_model(model, LoraConfig())
SFTTrainer(model, args=SFTConfig("out"), train_dataset=rows).train()
"""


@pytest.mark.parametrize(
    ("printed", "told"),
    [("an A100 or H100 helps", ["MEM412"]), ("GPU 0: NVIDIA A100-SXM4-40GB", [])],
)
def test_a_large_gpu_is_known_by_the_name_that_a_driver_prints(
    printed: str, told: list[str]
) -> None:
    """Wrong where it was printed on another machine: nothing is said of the base."""
    output = {"output_type": "stream", "name": "stdout", "text": printed}
    cell = {"cell_type": "code", "source": STREAMED, "metadata": {}, "outputs": [output]}
    document = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    source = read_source("a.ipynb", json.dumps(document).encode())
    assert [one.code for one in check_source(source, load(["MEM412"]), Api(newest()))] == told


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("examples/loop.py", ["MEM411"]),
        ("tested/latest/loop.py", ["MEM411"]),
        ("archive/examples/loop.py", []),
        ("deprecated_scripts/loop.py", []),
        ("tests/fixtures/loop.py", []),
        (r"llama\\do-not-use-fa2\\loop.py", []),
    ],
)
def test_hints_pass_over_what_nobody_runs(path: str, told: list[str]) -> None:
    """Wrong where somebody runs what is in the archive: errors and waste are told there, too."""
    text = STREAMED.replace("LoraConfig()", "LoraConfig(modules_to_save=['lm_head'])")
    source = Source(path, text)
    rules, api = load(["MEM411"]), Api(newest())
    assert [one.code for one in check_source(source, rules, api, by_code=frozenset())] == told
    # Not over what the user asks for by its code.
    assert check_source(source, rules, api, by_code=frozenset({"MEM411"}))
    waste = Source(path, LOOP)
    assert check_source(waste, load(["MEM301"]), api, by_code=frozenset())
