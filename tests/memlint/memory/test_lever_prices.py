"""What findings about levers say that mending them saves, against arithmetic."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from memlint.cli.main import run
from memlint.memory.estimates import estimate

LOOP = """\
import copy
import torch
from datasets import load_dataset
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM

loader = DataLoader(load_dataset("a", split="train"), batch_size=1)
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-7B", dtype=torch.bfloat16)
model = model.cuda()
model.gradient_checkpointing_enable()
model.train()
{make}
for batch in loader:
    model(**batch, use_cache=False).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""
ADAPTER = """\
import torch
from peft import LoraConfig
from transformers import AutoModelForCausalLM, BitsAndBytesConfig
from trl import SFTConfig, SFTTrainer

config = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4")
model = AutoModelForCausalLM.from_pretrained("{name}"{how})
args = SFTConfig("out", per_device_train_batch_size=1, max_length=512)
lora = LoraConfig(r=8{more})
SFTTrainer(model, args=args, peft_config=lora, train_dataset=rows).train()
"""
ADAM = "optimizer = torch.optim.AdamW(model.parameters(){})"
# The script, and the bytes that the fault costs.
FAULTS = {
    "MEM507": (LOOP.format(make=ADAM.format("")), 2 * 7.616e9),
    "MEM414": (
        LOOP.format(make=f"ema = copy.deepcopy(model)\n{ADAM.format(', fused=True')}"),
        2 * 7.616e9,
    ),
    # Scales of 68.5 billion quantized weights: 32 bits for 64 of them, or 8 and a little.
    "MEM413": (
        ADAPTER.format(
            name="meta-llama/Llama-3.1-70B", how=", quantization_config=config", more=""
        ),
        68.5e9 / 64 * (4 - 1 - 4 / 256),
    ),
    # The second load, in bf16.
    "MEM409": (
        ADAPTER.format(name="Qwen/Qwen2.5-7B", how=", dtype=torch.bfloat16", more="")
        + 'whole = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-7B", dtype=torch.bfloat16, '
        'device_map="auto")\n',
        2 * 7.616e9,
    ),
    # Weights as they were saved.
    "MEM410": (
        LOOP.format(
            make='model.load_state_dict(torch.load("last.pt", map_location="cuda"))\n'
            f"{ADAM.format('')}"
        ),
        2 * 7.616e9,
    ),
    # A second copy of all gradients.
    "MEM506": (
        LOOP.format(
            make="model = torch.nn.parallel.DistributedDataParallel(model)\n" + ADAM.format("")
        ),
        2 * 7.616e9,
    ),
    # Keys and values of 4 heads of 128 numbers in 28 layers, for 2,048 tokens.
    "MEM302": (
        LOOP.format(make=ADAM.format(""))
        .replace("model(**batch, use_cache=False)", "outputs = model(**batch)\n    outputs")
        .replace("model.gradient_checkpointing_enable()", ""),
        2 * 4 * 128 * 28 * 2 * 2048,
    ),
    # Embeddings and output matrix: 2 bytes more for each number.
    "MEM408": (
        ADAPTER.format(name="meta-llama/Llama-3.1-8B", how=", quantization_config=config", more="")
        .replace('"nf4")', '"nf4", bnb_4bit_compute_dtype=torch.bfloat16)')
        .replace("args =", "model = prepare_model_for_kbit_training(model)\nargs =")
        .replace("import LoraConfig", "import LoraConfig, prepare_model_for_kbit_training"),
        2 * 2 * 128256 * 4096,
    ),
    # Two tables of 152,064 words: a copy in bf16 and Adam's states; and when the loss is computed
    # the head's gradient, in bf16 and in float32.
    "MEM411": (
        ADAPTER.format(
            name="Qwen/Qwen2.5-7B",
            how=", dtype=torch.bfloat16",
            more=", modules_to_save=['embed_tokens', 'lm_head']",
        ),
        3 * 152064 * 3584 * (2 + 4),
    ),
}


def test_sharding_saves_what_the_other_gpus_keep(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of weights, gradients and states in bf16 each of four GPUs keeps a quarter, and no buckets;
    it gathers the tables and two layers."""
    wrapped = "model = torch.nn.parallel.DistributedDataParallel(model)\n"
    (tmp_path / "train.py").write_text(LOOP.format(make=wrapped + ADAM.format(", fused=True")))
    (tmp_path / "run.sh").write_text("torchrun --nproc_per_node 4 train.py\n")
    command = ["check", "--no-cache", "--output-format", "json", "--select", "MEM508"]
    run([*command, "--assume", "loss=liger", str(tmp_path)])
    (found,) = json.loads(capsys.readouterr().out)
    numbers, tables, layer = 7.616e9, 2 * 152064 * 3584, 233e6
    before = 2 * numbers * (1 + 1 + 2 + 1)
    # When the first layer's gradients come: a quarter of all, what is gathered, the layer's whole
    # gradients, and those of the head, which wait for the embeddings'.
    after = before * 4 / 5 / 4 + 2 * (tables + 2 * layer) + 2 * layer + tables
    assert "on 4 GPUs" in found["message"]
    assert found["saving"]["low"] <= before - after <= found["saving"]["high"]
    assert found["saving"]["high"] - found["saving"]["low"] < 0.25 * before


GROWS = "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\n"


@pytest.mark.parametrize(
    ("command", "heard"),
    [("python train.py\n", True), (f"{GROWS}python train.py\n", False), ("", False)],
)
def test_segments_that_do_not_grow_are_told_where_a_command_shows_its_environment(
    command: str, heard: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    load = 'load_dataset("a", split="train").map(lambda row: tokenizer(row["text"]))'
    text = LOOP.format(make=ADAM.format("")).replace('load_dataset("a", split="train")', load)
    text = text.replace("import AutoModelForCausalLM", "import AutoModelForCausalLM, AutoTokenizer")
    text = text.replace("batch_size=1", "batch_size=4").replace("Qwen2.5-7B", "Qwen2.5-3B")
    text = text.replace("loader =", 'tokenizer = AutoTokenizer.from_pretrained("a")\nloader =')
    # Without options of its own such a loop is the same under all commands.
    text = f"import argparse\n\nargparse.ArgumentParser().parse_args()\n{text}"
    (tmp_path / "train.py").write_text(text)
    (tmp_path / "run.sh").write_text(command)
    run(["check", "--no-cache", "--output-format", "json", str(tmp_path)])
    found = [one for one in json.loads(capsys.readouterr().out) if one["code"] == "MEM109"]
    assert bool(found) is heard
    for one in found:
        settings = {
            "model": "Qwen/Qwen2.5-3B",
            "seq_len": 2048,
            "micro_batch": 4,
            "trainer": "loop",
        }
        settings |= {"weights_dtype": "bfloat16", "optimizer": "AdamW", "checkpointing": "full"}
        peak = estimate({**settings, "loss": "full_logits"})
        assert 0.05 * peak.allocated.estimate < one["saving"]["low"]
        assert one["saving"]["high"] < 0.3 * (peak.reserved.estimate - peak.allocated.estimate)


PAIRS = """\
import torch
from datasets import load_dataset
from transformers import AutoModelForCausalLM
from trl import DPOConfig, DPOTrainer

rows = load_dataset("a", split="train")
model = AutoModelForCausalLM.from_pretrained("{name}", dtype=torch.bfloat16)
DPOTrainer(model, args=DPOConfig("out", per_device_train_batch_size=4), train_dataset=rows).train()
"""
SCORES = """\
from datasets import load_dataset
from transformers import AutoModelForSequenceClassification
from trl import RewardConfig, RewardTrainer

rows = load_dataset("a", split="train")
name = "{name}"
model = AutoModelForSequenceClassification.from_pretrained(name, num_labels=1)
args = RewardConfig("out", per_device_train_batch_size=2)
RewardTrainer(model=model, args=args, train_dataset=rows).train()
"""


@pytest.mark.parametrize(
    ("text", "more", "heard"),
    [
        # All states and gradients are the peak: no batch fills what they take.
        (PAIRS.format(name="Qwen/Qwen2.5-7B"), (), False),
        (PAIRS.format(name="Qwen/Qwen2.5-0.5B"), (), False),
        # 31 GiB, and 33 with holes.
        (PAIRS.format(name="Qwen/Qwen2.5-3B"), (), True),
        (PAIRS.format(name="Qwen/Qwen2.5-3B"), ("--gpu", "a100-40gb"), False),
        (PAIRS.format(name="Qwen/Qwen2.5-3B"), ("--gpu", "h200-141gb"), False),
        (SCORES.format(name="Qwen/Qwen2.5-0.5B-Instruct"), (), False),
    ],
)
def test_holes_are_told_of_where_the_gpu_lacks_room_for_them(
    text: str,
    more: tuple[str, ...],
    heard: bool,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "train.py"
    path.write_text(text)
    run(["check", "--no-cache", "--output-format", "json", "--select", "MEM109", *more, str(path)])
    assert bool(json.loads(capsys.readouterr().out)) is heard


STEPS = """\
from datasets import load_dataset
from transformers import AutoModelForCausalLM
from trl import DPOConfig, DPOTrainer

rows = load_dataset("a", split="train")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B", dtype="float32")
options = dict(per_device_train_batch_size={rows}, max_length=1024, gradient_checkpointing={check})
args = DPOConfig("out", optim="adamw_torch", **options)
DPOTrainer(model, args=args, train_dataset=rows).train()
"""


@pytest.mark.parametrize(("rows", "check", "heard"), [(1, True, True), (16, False, False)])
def test_a_step_is_no_line_where_another_phase_is_surely_fuller(
    rows: int, check: bool, heard: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "train.py"
    path.write_text(STEPS.format(rows=rows, check=check))
    run(["check", "--no-cache", "--output-format", "json", "--select", "MEM507", str(path)])
    assert bool(json.loads(capsys.readouterr().out)) is heard


PROGRAM = """\
from datasets import load_dataset
from transformers import AutoModelForCausalLM
from trl import DPOConfig, DPOTrainer, ModelConfig, ScriptArguments, TrlParser

script, args, model = TrlParser((ScriptArguments, DPOConfig, ModelConfig)).parse_args_and_config()
rows = load_dataset(script.dataset_name, split="train")
policy = AutoModelForCausalLM.from_pretrained(model.model_name_or_path)
DPOTrainer(policy, args=args, train_dataset=rows).train()
"""
RECIPE = """\
model_name_or_path: Qwen/Qwen2.5-3B
dataset_name: trl-lib/ultrafeedback_binarized
per_device_train_batch_size: 4
max_length: 2048
output_dir: out
beta: 0.1
"""


@pytest.mark.parametrize(
    ("files", "heard"), [({"run.sh": "python dpo.py --config dpo.yaml\n"}, True), ({}, False)]
)
def test_holes_of_a_recipe_are_told_where_a_command_shows_what_starts_it(
    files: dict[str, str], heard: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, text in {"dpo.py": PROGRAM, "dpo.yaml": RECIPE, **files}.items():
        (tmp_path / name).write_text(text)
    run(["check", "--no-cache", "--output-format", "json", "--select", "MEM109", str(tmp_path)])
    found = json.loads(capsys.readouterr().out)
    assert [Path(one["filename"]).name for one in found] == ["dpo.yaml"] * heard


BUCKETS = """\
from torch.nn.parallel import DistributedDataParallel as DDP
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("{name}").cuda()
model.train()
wrapped = DDP(model, device_ids=[0])
for batch in loader:
    wrapped(**batch).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.mark.parametrize(
    ("name", "heard"), [("Qwen/Qwen2.5-1.5B", True), ("HuggingFaceTB/SmolLM2-135M", False)]
)
def test_buckets_of_half_a_gib_are_worth_no_line(
    name: str, heard: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "train.py"
    path.write_text(BUCKETS.format(name=name))
    run(["check", "--no-cache", "--output-format", "json", "--select", "MEM506", str(path)])
    assert bool(json.loads(capsys.readouterr().out)) is heard


@pytest.mark.parametrize("code", FAULTS)
def test_a_fault_costs_what_arithmetic_says(
    code: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, wanted = FAULTS[code]
    path = tmp_path / "train.py"
    path.write_text(text)
    run(["check", "--no-cache", "--output-format", "json", "--select", code, str(path)])
    (found,) = json.loads(capsys.readouterr().out)
    saving = found["saving"]
    assert saving["low"] <= wanted * 1.02
    assert saving["high"] >= wanted * 0.98


LAST = """\
import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-7B", dtype=torch.bfloat16).cuda()
for ids in loader:
    with torch.no_grad():
        logits = model(input_ids=ids).logits
    print(logits[:, -1].argmax(-1))
"""
COMPLETION = """\
import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-7B", dtype=torch.bfloat16).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for ids, start, gains in loader:
    logits = model(input_ids=ids).logits[:, start - 1 : -1]
    picked = torch.log_softmax(logits, -1).gather(-1, ids[:, start:].unsqueeze(-1))
    loss = -(picked.squeeze(-1) * gains).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""
GROUPS = """\
from trl import GRPOConfig, GRPOTrainer

args = GRPOConfig("out", per_device_train_batch_size=8, max_completion_length=1024{more})
GRPOTrainer("Qwen/Qwen3-4B", reward_funcs=score, args=args, train_dataset=prompts).train()
"""


def _saving(path: Path, text: str, code: str, capsys: pytest.CaptureFixture[str]) -> Any:
    path.write_text(text)
    run(["check", "--no-cache", "--output-format", "json", "--target", "newest", str(path)])
    found = json.loads(capsys.readouterr().out)
    return next((each["saving"] for each in found if each["code"] == code), None)


def test_logits_that_nothing_reads_cost_what_stands_above_the_layers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saving = _saving(tmp_path / "last.py", LAST, "MEM209", capsys)
    assert saving["at"] == "for each 1,024 tokens of a Llama-3.1-8B"
    logits = 2 * 1024 * 128256
    # A layer has gate, up and their product beside its input, residual and norm.
    layer = 2 * 1024 * (3 * 14336 + 2 * 4096)
    middle = (saving["low"] + saving["high"]) / 2
    assert middle == pytest.approx(logits - layer, rel=0.1)
    saving = _saving(tmp_path / "train.py", COMPLETION, "MEM209", capsys)
    assert saving["at"] == "for each 1,024 tokens of prompts"
    # In bf16, and the zeros in the place of their gradients.
    assert saving["low"] < 2 * 2 * 1024 * 152064 < saving["high"]


def test_logits_of_prompts_have_no_gradient_where_none_is_recorded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = (
        "    with torch.no_grad():\n        kept = model(input_ids=ids).logits[:, start - 1 : -1]\n"
    )
    text = COMPLETION.replace("    logits = ", f"{given}    logits = ")
    text = text.replace("* gains", "* (gains - kept.mean())")
    path = tmp_path / "train.py"
    path.write_text(text)
    run(["check", "--no-cache", "--output-format", "json", "--target", "newest", str(path)])
    found = json.loads(capsys.readouterr().out)
    scored, trained = (each["saving"] for each in found if each["code"] == "MEM209")
    assert trained["low"] == pytest.approx(2 * scored["low"], rel=0.01)


def test_completions_are_trimmed_to_the_longest_of_their_micro_batch(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def said(steps: int, tokens: int = 1024) -> str:
        more = f", gradient_accumulation_steps={steps}"
        text = GROUPS.replace("1024", str(tokens)).format(more=more)
        saving = _saving(tmp_path / "groups.py", text, "MEM108", capsys)
        return "" if saving is None else str(saving["at"])

    # H_8 = 2.72, H_16 = 3.38, H_64 = 4.74 times the mean, of which 1,024 tokens are 7.49.
    assert said(8) == "in a usual batch (372 tokens a row, not 649)"
    assert said(2, 2048) == "in a usual batch (744 tokens a row, not 925)"
    # Half a GiB is not worth another trainer.
    assert said(8, 64) == ""
    assert said(1) == ""
