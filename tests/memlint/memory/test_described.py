"""Runs that recipes and launch commands describe: estimates, prices, what makes them fit."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from memlint.api.lookup import Api
from memlint.api.target_versions import newest
from memlint.cli.main import run
from memlint.memory import estimate
from memlint.run.described import runs_in
from memlint.run.runs import Runs
from memlint.runs.program_options import CHUNKED_LOSS, WHOLE_LOSS

TRL = """\
model_name_or_path: Qwen/Qwen2.5-1.5B
dtype: bfloat16
attn_implementation: flash_attention_2
dataset_name: own/rows
per_device_train_batch_size: 6
gradient_accumulation_steps: 2
max_length: 1536
gradient_checkpointing: true
bf16: true
optim: adamw_8bit
loss_type: nll
learning_rate: 1.0e-5
output_dir: out
"""
SCRIPT = """\
from datasets import load_dataset
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer

model = AutoModelForCausalLM.from_pretrained(
    "Qwen/Qwen2.5-1.5B", dtype="bfloat16", attn_implementation="flash_attention_2"
)
args = SFTConfig(
    output_dir="out", per_device_train_batch_size=6, gradient_accumulation_steps=2,
    max_length=1536, gradient_checkpointing=True, bf16=True, optim="adamw_8bit", loss_type="nll",
)
SFTTrainer(model, args=args, train_dataset=load_dataset("own/rows", split="train")).train()
"""
AXOLOTL = """\
base_model: NousResearch/Meta-Llama-3-8B
load_in_4bit: true
adapter: qlora
lora_r: 24
lora_target_linear: true
datasets:
  - path: own/rows
    type: alpaca
val_set_size: 0.1
sequence_len: 3072
sample_packing: true
micro_batch_size: 3
gradient_accumulation_steps: 2
optimizer: paged_adamw_8bit
bf16: auto
gradient_checkpointing: true
attn_implementation: flash_attention_2
learning_rate: 0.0002
num_epochs: 1
output_dir: out
"""
LLAMA_FACTORY = """\
model_name_or_path: Qwen/Qwen2.5-7B-Instruct
stage: sft
do_train: true
finetuning_type: full
dataset: own
template: qwen
cutoff_len: 1024
per_device_train_batch_size: 2
gradient_accumulation_steps: 4
deepspeed: configs/ds_z2.json
flash_attn: fa2
bf16: true
output_dir: out
"""
TORCHTUNE = """\
model:
  _component_: torchtune.models.llama3_2.lora_llama3_2_3b
  lora_attn_modules: [q_proj, v_proj, output_proj]
  apply_lora_to_mlp: true
  lora_rank: 12
tokenizer:
  _component_: torchtune.models.llama3.llama3_tokenizer
  path: /models/llama/tokenizer.model
  max_seq_len: 1280
dataset:
  _component_: torchtune.datasets.alpaca_dataset
  packed: true
optimizer:
  _component_: torch.optim.AdamW
  fused: true
loss:
  _component_: torchtune.modules.loss.LinearCrossEntropyLoss
batch_size: 5
gradient_accumulation_steps: 3
enable_activation_checkpointing: false
enable_activation_offloading: false
dtype: bf16
device: cuda
"""


def write(folder: Path, **files: str) -> None:
    """Write files; ``a__b`` is ``a.b``. The folder is a project of its own."""
    (folder / "pyproject.toml").touch()
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)


def settings(path: Path) -> list[dict[str, Any]]:
    api = Api(newest())
    return [one.settings for one in runs_in(str(path), lambda file, source: api, Runs())]


def estimated(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    run(["estimate", *arguments, "--output-format", "json"])
    printed = capsys.readouterr()
    return json.loads(printed.out) if printed.out else printed.err


def test_a_recipe_of_trl_is_estimated_as_the_script_with_its_settings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, sft__yaml=TRL, train__py=SCRIPT)
    by_recipe = estimated(capsys, str(tmp_path / "sft.yaml"))
    by_script = estimated(capsys, str(tmp_path / "train.py"))
    assert by_recipe["allocated"] == by_script["allocated"]
    assert by_recipe["phases"] == by_script["phases"]


def test_a_recipe_of_trl_quantizes_to_nf4_by_its_own_default(tmp_path: Path) -> None:
    write(tmp_path, sft__yaml=TRL + "load_in_4bit: true\nuse_peft: true\n")
    (found,) = settings(tmp_path / "sft.yaml")
    assert found["quantization"]["type"] == "nf4"


# What a recipe says beyond what all settings of its program have.
READ: dict[str, tuple[str, dict[str, Any]]] = {
    "axolotl": (
        AXOLOTL,
        {
            "trainer": "transformers.Trainer",
            "model": "NousResearch/Meta-Llama-3-8B",
            "method": "qlora",
            "lora": {"r": 24, "target_modules": "all-linear"},
            "quantization": {
                "bits": 4, "type": "nf4", "compute_dtype": "bfloat16", "double_quant": True,
                "kbit_preparation": False,
            },
            "weights_dtype": "bfloat16", "compute_dtype": "bfloat16", "autocast": True,
            "optimizer": "paged_adamw_8bit", "micro_batch": 3, "gradient_accumulation": 2,
            "seq_len": 3072, "packed": True, "checkpointing": "full",
            "attention": "flash_attention_2", "evaluation": True, "eval_batch": 3,
            "notes": {"optimizer": "the recipe names paged_adamw_8bit"},
        },
    ),
    "llama-factory": (
        LLAMA_FACTORY,
        {
            "trainer": "transformers.Trainer",
            "model": "Qwen/Qwen2.5-7B-Instruct",
            "method": "full",
            # DeepSpeed casts the weights, and keeps float32 copies.
            "weights_dtype": "bfloat16", "compute_dtype": "bfloat16", "autocast": False,
            "micro_batch": 2, "gradient_accumulation": 4, "seq_len": 1024,
            "checkpointing": "reentrant", "attention": "flash_attention_2", "sharding": "zero2",
            "sharding_options": {"stage": 2},
            "notes": {"sharding": "`configs/ds_z2.json` is out of sight: by its name"},
        },
    ),
    "torchtune": (
        TORCHTUNE,
        {
            "trainer": "loop",
            "model": "llama3_2_3b",
            "method": "lora",
            "lora": {
                "r": 12, "dtype": "bfloat16",
                "target_modules": [
                    "q_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"
                ],
            },
            "weights_dtype": "bfloat16", "compute_dtype": "bfloat16", "autocast": False,
            "optimizer": "AdamW_fused", "loss": "chunked", "micro_batch": 5,
            "gradient_accumulation": 3, "seq_len": 1280, "packed": True, "checkpointing": "none",
            "notes": {"optimizer": "the recipe names torch.optim.AdamW"},
        },
    ),
}  # fmt: skip


@pytest.mark.parametrize("program", READ)
def test_a_recipe_is_read_by_its_programs_table(program: str, tmp_path: Path) -> None:
    text, expected = READ[program]
    write(tmp_path, own__yaml=text)
    (found,) = settings(tmp_path / "own.yaml")
    assert found.pop("versions")
    assert found == expected


VARIANTS: dict[str, tuple[str, str, str, dict[str, Any]]] = {
    "a reward model": (
        AXOLOTL, "load_in_4bit: true\nadapter: qlora", "reward_model: true",
        {"trainer": "trl.RewardTrainer", "method": "full"},
    ),
    "preferences": (AXOLOTL, "val_set_size: 0.1", "rl: orpo", {"trainer": "trl.ORPOTrainer"}),
    "eight bits without bf16": (
        AXOLOTL, "load_in_4bit: true", "load_in_8bit: true",
        {"quantization": {
            "bits": 8, "type": "int8", "compute_dtype": "bfloat16", "double_quant": False,
            "kbit_preparation": False}},
    ),
    "float32": (AXOLOTL, "bf16: auto", "tf32: true", {
        "weights_dtype": "float32", "compute_dtype": "float32", "autocast": False}),
    "a loss without logits": (
        AXOLOTL, "bf16: auto",
        "bf16: auto\nplugins: [axolotl.integrations.cut_cross_entropy.CutCrossEntropyPlugin]",
        {"loss": "liger"},
    ),
    "checkpoints in host memory": (
        AXOLOTL, "checkpointing: true", "checkpointing: offload",
        {"checkpointing": "full", "offload": "activations"},
    ),
    "FSDP": (
        AXOLOTL, "bf16: auto", "bf16: auto\nfsdp_version: 2\nfsdp_config:\n  offload_params: true",
        {"sharding": "fsdp2",
         "sharding_options": {"sharding_strategy": "full_shard", "offload_params": True}},
    ),
    "Muon for the matrices": (
        AXOLOTL, "optimizer: paged_adamw_8bit", "optimizer: muon",
        {"optimizer": "muon_beside_adamw"},
    ),
    "all computed again but attention": (
        AXOLOTL, "checkpointing: true",
        "checkpointing: true\nselective_checkpointing: {save: [attention]}",
        {"checkpointing": "all_but_attention"},
    ),
    "matmuls kept as well": (
        AXOLOTL, "checkpointing: true",
        "checkpointing: true\nselective_checkpointing: {save: [attention, 'aten::mm']}",
        {"checkpointing": "selective"},
    ),
    "activations on disk": (
        AXOLOTL, "bf16: auto", "bf16: auto\nactivation_offloading: disk",
        {"offload": "activations"},
    ),
    "rows over GPUs": (
        AXOLOTL, "bf16: auto", "bf16: auto\ncontext_parallel_size: 4\ntensor_parallel_size: 2",
        {"world_size": 8, "sharding": "none", "sharding_options": {"cp_size": 4, "tp_size": 2}},
    ),
    "GaLore, a layer at a time": (
        LLAMA_FACTORY, "bf16: true", "bf16: true\nuse_galore: true\ngalore_layerwise: true",
        {"optimizer": "galore_adamw_layerwise"},
    ),
    "checkpoints where Unsloth keeps them": (
        LLAMA_FACTORY, "bf16: true", "bf16: true\nuse_unsloth_gc: true",
        {"offload": "activations"},
    ),
    "another library's codes": (
        LLAMA_FACTORY, "finetuning_type: full",
        "finetuning_type: lora\nquantization_bit: 4\nquantization_method: hqq",
        {"method": "qlora", "quantization": {"bits": 4, "type": "hqq"}},
    ),
    "a base that is quantized already": (
        LLAMA_FACTORY, "Instruct\nstage: sft\ndo_train: true\nfinetuning_type: full",
        "Instruct-AWQ\nstage: sft\ndo_train: true\nfinetuning_type: lora",
        {"method": "qlora", "quantization": {"bits": 4, "type": "awq"}},
    ),
    "some layers of torchtune's": (
        TORCHTUNE, "batch_size: 5",
        "batch_size: 5\nac_mode: selective\nenable_activation_checkpointing: false",
        {"checkpointing": "selective"},
    ),
    "gradients that go to the CPU": (
        TORCHTUNE, "torch.optim.AdamW\n  fused",
        "torchao.optim.CPUOffloadOptimizer\n  offload_gradients",
        {"optimizer": "adamw_torch_fused_in_backward", "offload": "optimizer"},
    ),
    "adapters by default": (
        LLAMA_FACTORY, "finetuning_type: full", "finetuning_type: lora",
        {"method": "lora", "lora": {"r": 8, "target_modules": "all-linear"}},
    ),
    "float32 weights that are trained": (
        LLAMA_FACTORY, "deepspeed: configs/ds_z2.json", "disable_gradient_checkpointing: true",
        {"weights_dtype": "float32", "compute_dtype": "bfloat16", "checkpointing": "none"},
    ),
    "pure bf16": (
        LLAMA_FACTORY, "deepspeed: configs/ds_z2.json", "pure_bf16: true",
        {"weights_dtype": "bfloat16", "autocast": False},
    ),
    "a quantized base of the builder": (
        TORCHTUNE, "lora_llama3_2_3b", "qlora_llama3_2_3b",
        {"method": "qlora", "model": "llama3_2_3b"},
    ),
    "a step in backward, which recipes of adapters do not take": (
        TORCHTUNE, "dtype: bf16", "dtype: bf16\noptimizer_in_bwd: true",
        {"optimizer": "AdamW_fused"},
    ),
    "a step in backward": (
        TORCHTUNE,
        "lora_llama3_2_3b\n  lora_attn_modules: [q_proj, v_proj, output_proj]\n"
        "  apply_lora_to_mlp: true\n  lora_rank: 12\n",
        "llama3_2_3b\noptimizer_in_bwd: true\n",
        {"optimizer": "AdamW_fused_in_backward"},
    ),
    "the checkpoint's folder": (
        TORCHTUNE,
        "llama3_2.lora_llama3_2_3b", "llama3_2.lora_llama3_2\ncheckpointer:\n"
        "  checkpoint_dir: /models/Llama-3.2-3B-Instruct/\nmore:\n  x: 1",
        {"model": "Llama-3.2-3B-Instruct"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", VARIANTS)
def test_a_key_that_changes_the_run_is_read(name: str, tmp_path: Path) -> None:
    text, old, new, expected = VARIANTS[name]
    assert old in text
    write(tmp_path, own__yaml=text.replace(old, new))
    (found,) = settings(tmp_path / "own.yaml")
    assert {key: found[key] for key in expected} == expected


def test_layers_that_wait_on_the_host_are_said_and_make_the_least_less(tmp_path: Path) -> None:
    least = []
    for more in ("", "layer_offloading: true\n"):
        write(tmp_path, own__yaml=AXOLOTL + more)
        (found,) = settings(tmp_path / "own.yaml")
        least.append(estimate(found))
    before, after = least
    assert after.allocated.estimate == before.allocated.estimate
    frozen = 32 * 4096 * (4096 * 2 + 1024 * 2 + 3 * 14336) // 2  # four bits of each layer's maps
    assert before.allocated.low - after.allocated.low > frozen * 0.9
    (said,) = [one for one in after.assumptions if one.name == "streamed"]
    assert "layer_offloading" in said.reason
    assert said.other is True


def test_a_deepspeed_file_beside_a_recipe_is_read(tmp_path: Path) -> None:
    zero = {"zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu"}}}
    for text in (LLAMA_FACTORY, TRL + "deepspeed: configs/ds_z2.json\n"):
        write(tmp_path, own__yaml=text)
        (tmp_path / "configs").mkdir(exist_ok=True)
        (tmp_path / "configs" / "ds_z2.json").write_text(json.dumps(zero))
        (found,) = settings(tmp_path / "own.yaml")
        assert found["sharding"] == "zero3"
        assert found["sharding_options"]["offload_optimizer"] == {"device": "cpu"}
        assert "sharding" not in found.get("notes", {})


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("start.sh", "{}\n"),
        ("Makefile", "train:\n\t{}\n"),
        ("justfile", "train:\n    {}\n"),
    ],
)
def test_a_command_is_estimated_over_its_recipe(name: str, text: str, tmp_path: Path) -> None:
    command = "accelerate launch --num_processes 2 -m trl.scripts.sft --config sft.yaml"
    write(tmp_path, sft__yaml=TRL)
    (tmp_path / name).write_text(text.format(f"{command} --max_length 384"))
    for path in (tmp_path / name, tmp_path / "sft.yaml"):
        (found,) = settings(path)
        assert found["seq_len"] == 384
        assert found["micro_batch"] == 6
        assert found["world_size"] == 2


def test_a_command_that_adds_nothing_is_its_recipe(tmp_path: Path) -> None:
    write(tmp_path, own__yaml=AXOLOTL, start__sh="axolotl train own.yaml\n")
    assert settings(tmp_path / "start.sh") == settings(tmp_path / "own.yaml")


PARSED = """\
import argparse
from trl import SFTConfig, SFTTrainer
parser = argparse.ArgumentParser()
parser.add_argument("--model", required=True)
parser.add_argument("--length", type=int, default=1024)
given = parser.parse_args()
args = SFTConfig(output_dir="o", per_device_train_batch_size=2, max_length=given.length)
SFTTrainer(given.model, args=args, train_dataset=rows).train()
"""
SEVERAL = """\
set -e
python train.py --model Qwen/Qwen3-0.6B --length 512
torchrun --nproc_per_node 4 train.py \\
    --model Qwen/Qwen3-1.7B
python train.py --model Qwen/Qwen3-0.6B --length 512
"""


def test_a_command_of_a_script_gives_it_its_settings(tmp_path: Path) -> None:
    write(tmp_path, train__py=PARSED, start__sh=SEVERAL)
    first, second = settings(tmp_path / "start.sh")
    assert (first["model"], first["seq_len"]) == ("Qwen/Qwen3-0.6B", 512)
    assert (second["model"], second["seq_len"]) == ("Qwen/Qwen3-1.7B", 1024)
    assert (second["sharding"], second["world_size"]) == ("ddp", 4)
    write(tmp_path, module__sh="python -m train --model Qwen/Qwen3-0.6B --length 512\n")
    assert settings(tmp_path / "module.sh") == [first]


@pytest.mark.parametrize("name", ["start.sh", "train.py"])
def test_runs_with_different_settings_are_shown_each_and_can_be_chosen(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, train__py=PARSED, start__sh=SEVERAL)
    assert run(["estimate", name]) == 0
    text = capsys.readouterr().out
    assert "start.sh:2: python train.py --model Qwen/Qwen3-0.6B" in text
    assert "start.sh:3: torchrun --nproc_per_node 4 train.py --model Qwen/Qwen3-1.7B" in text
    assert text.count("largest at the peak") == 2
    result = estimated(capsys, name)
    assert [one["place"] for one in result["runs"]] == ["start.sh:2", "start.sh:3"]
    assert result["runs"][0]["parameters"] < result["runs"][1]["parameters"]
    chosen = estimated(capsys, "start.sh:3")
    assert chosen["parameters"] == result["runs"][1]["parameters"]
    assert "no run begins at start.sh:4: start.sh has start.sh:2, start.sh:3" in estimated(
        capsys, "start.sh:4"
    )


def test_a_run_that_cannot_be_estimated_leaves_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    text = SEVERAL.replace("Qwen/Qwen3-1.7B", "own/unheard-of")
    write(tmp_path, train__py=PARSED, start__sh=text)
    assert run(["estimate", "start.sh"]) == 0
    printed = capsys.readouterr()
    assert "start.sh:2: python" in printed.out
    assert "start.sh:3: the shape of model 'own/unheard-of' is not known" in printed.err


REFUSED = {
    "zero.json": (
        '{"zero_optimization": {"stage": 2}, "train_micro_batch_size_per_gpu": 1}',
        "configures DeepSpeed and names no model",
    ),
    "other.yaml": ("a: 1\n", "is not a training recipe that memlint knows"),
    "shipped.sh": (
        "tune run lora_finetune_single_device --config llama3_2/1B_lora batch_size=2\n",
        "starts `llama3_2/1B_lora`, a recipe that is not here: give its file",
    ),
    "gone.sh": ("python elsewhere.py --lr 1\n", "starts elsewhere.py, which is not here"),
    "idle.sh": ("python idle.py\n", "starts idle.py, which trains nothing"),
    "plain.sh": ("echo hello\n", "starts no training script"),
    "broken.yaml": ("model_name_or_path: [\n", "broken.yaml"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_file_without_a_run_is_refused_in_one_line(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    text, message = REFUSED[name]
    write(tmp_path, idle__py="print('hello')\n")
    (tmp_path / name).write_text(text)
    assert run(["estimate", name]) == 2
    errors = capsys.readouterr().err
    assert message in errors
    assert len(errors.strip().split("\n")) == 1


def test_a_folder_is_answered_with_the_files_that_train(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, train__py=SCRIPT, own__yaml=AXOLOTL, README__md="x", data__json="[]")
    (tmp_path / "idle.py").write_text("print(1)\n")
    assert run(["estimate", "."]) == 2
    errors = capsys.readouterr().err
    assert "is a folder; choose the run" in errors
    assert "memlint estimate own.yaml" in errors
    assert "memlint estimate train.py" in errors
    assert "idle" not in errors
    (tmp_path / "empty").mkdir()
    assert run(["estimate", "empty"]) == 2
    assert "in which nothing trains" in capsys.readouterr().err


# -- prices ----------------------------------------------------------------------------------------

WASTEFUL: dict[str, tuple[str, str]] = {
    "own.yaml": (TORCHTUNE.replace("optimizer:\n", "optimizer:  \n"), "MEM301"),
    "axolotl.yaml": (AXOLOTL.replace("checkpointing: true", "checkpointing: false"), "MEM301"),
    "factory.yaml": (
        LLAMA_FACTORY.replace("deepspeed: configs/ds_z2.json", "optim: adamw_torch"), "MEM501"
    ),
    "trl.yaml": (TRL.replace("gradient_checkpointing: true", "gradient_checkpointing: false"),
                 "MEM301"),
    "start.sh": (
        "trl sft --model_name_or_path Qwen/Qwen2.5-1.5B --dtype bfloat16 --dataset_name own/rows "
        "--per_device_train_batch_size 8 --gradient_checkpointing false --max_length 2048 "
        "--bf16 true --learning_rate 1e-5 --output_dir out\n",
        "MEM301",
    ),
}  # fmt: skip


def checked(capsys: pytest.CaptureFixture[str], path: Path) -> tuple[list[Any], str]:
    run(["check", "--no-cache", "--output-format", "json", str(path)])
    found = json.loads(capsys.readouterr().out)
    run(["check", "--no-cache", "--output-format", "concise", str(path)])
    return found, capsys.readouterr().out


@pytest.mark.parametrize("name", WASTEFUL)
def test_a_finding_in_a_recipe_or_a_command_has_a_price(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, code = WASTEFUL[name]
    write(tmp_path)
    (tmp_path / name).write_text(text)
    found, shown = checked(capsys, tmp_path / name)
    (priced,) = [each for each in found if each["code"] == code]
    assert priced["saving"]["low"] > 2**25
    line = next(each for each in shown.split("\n") if ": peak " in each)
    peaks = [float(one) for one in re.findall(r"(\d+\.\d) GiB", line)]
    savings = [each["saving"] for each in found if each["saving"]]
    of_peak = [each for each in savings if each["of_peak"] and not each["at"]]
    drop = (peaks[0] - min(peaks)) * 2**30
    assert sum(one["low"] for one in of_peak) - 2**28 <= drop
    assert drop <= sum(one["high"] for one in of_peak) + 2**28


def test_commands_of_one_file_have_prices_of_their_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, _ = WASTEFUL["start.sh"]
    larger = text.replace("Qwen2.5-1.5B", "Qwen2.5-7B")
    write(tmp_path, start__sh=text + larger)
    found, shown = checked(capsys, tmp_path / "start.sh")
    first, second = (each["saving"] for each in found if each["code"] == "MEM301")
    assert second["low"] > first["high"]
    assert ": peak" not in shown


def test_a_recipe_of_an_unknown_model_has_prices_of_a_usual_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, _ = WASTEFUL["trl.yaml"]
    write(tmp_path, own__yaml=text.replace("Qwen/Qwen2.5-1.5B", "own/model"))
    found, shown = checked(capsys, tmp_path / "own.yaml")
    savings = [each["saving"] for each in found if each["saving"]]
    assert savings
    assert all("for a Llama-3.1-8B at" in saving["at"] for saving in savings)
    assert ": peak" not in shown


# -- what makes it fit -----------------------------------------------------------------------------


def test_a_recipe_is_made_to_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    # One row at once: fewer are none. What is written as off is left to the author.
    alone = TORCHTUNE.replace("batch_size: 5", "batch_size: 1").replace("1280", "5632")
    write(tmp_path, own__yaml=alone)
    assert run(["estimate", "own.yaml", "--gpu", "rtx3060-12gb", "--fit"]) == 0
    said = capsys.readouterr().out
    assert "by hand  Set `enable_activation_checkpointing: true`" in said
    alone = alone.replace("checkpointing: false", "checkpointing: true")
    alone = alone.replace("torchtune.modules.loss.LinearCrossEntropyLoss", WHOLE_LOSS)
    write(tmp_path, own__yaml=alone)
    assert run(["estimate", "own.yaml", "--gpu", "rtx3060-12gb", "--fit"]) == 0
    said = capsys.readouterr().out
    assert f"Use `{CHUNKED_LOSS}`" in said
    assert "memlint fix --fit --gpu rtx3060-12gb own.yaml" in said
    run(["fix", "--fit", "--gpu", "rtx3060-12gb", "own.yaml"])
    capsys.readouterr()
    assert f"_component_: {CHUNKED_LOSS}" in (tmp_path / "own.yaml").read_text()
    assert run(["estimate", "own.yaml", "--gpu", "rtx3060-12gb"]) == 0


def test_an_error_of_a_recipes_run_is_explained_with_its_places(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, own__yaml=TORCHTUNE, train__py=PARSED, start__sh=SEVERAL)
    log = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 100.00 MiB. GPU 0 has"
    (tmp_path / "log.txt").write_text(log)
    assert run(["oom", "log.txt", "own.yaml"]) == 0
    assert "MEM301: gradient_checkpointing=True (at own.yaml:20)" in capsys.readouterr().out
    assert run(["oom", "log.txt", "start.sh"]) == 2
    assert "give the one that failed, start.sh:2 or start.sh:3" in capsys.readouterr().err
    assert run(["oom", "log.txt", "start.sh:2"]) == 0


# -- what divides a run over GPUs, where that is out of sight --------------------------------------

SHARED = """\
from transformers import AutoModelForCausalLM, HfArgumentParser, Trainer, TrainingArguments
(args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-3B", dtype="bfloat16")
Trainer(model=model, args=args, train_dataset=rows).train()
"""
GIVEN = "train.py --per_device_train_batch_size 2 --bf16"


@pytest.mark.parametrize(
    ("command", "sharding", "reason"),
    [
        (
            f"torchrun --nproc_per_node 4 {GIVEN} --deepspeed conf/ds.json",
            "zero2",
            "`conf/ds.json` is out of sight: a usual one",
        ),
        (
            f"deepspeed --num_gpus 4 {GIVEN} --deepspeed conf/stage3.json",
            "zero3",
            "`conf/stage3.json` is out of sight: by its name",
        ),
        (
            f"accelerate launch --num_processes 4 --config_file conf/fsdp.yaml {GIVEN}",
            "fsdp",
            "`conf/fsdp.yaml` is out of sight: by its name",
        ),
        (
            f"accelerate launch --num_processes 4 --config_file $CONFIG {GIVEN}",
            "ddp",
            "decided when it is run",
        ),
    ],
)
def test_sharding_that_is_out_of_sight_is_an_assumption(
    command: str, sharding: str, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, train__py=SHARED, start__sh=command + "\n")
    result = estimated(capsys, str(tmp_path / "start.sh"))
    (assumed,) = [one for one in result["assumptions"] if one["name"] == "sharding"]
    assert (assumed["value"], assumed["reason"]) == (sharding, reason)
    # All that it may be is shown, and inside the interval.
    others = {one["sharding"]: one["allocated"]["estimate"] for one in result["by_gpus"]}
    assert len(others) > 1
    assert {one["world_size"] for one in result["by_gpus"]} == {4}
    held = result["allocated"]
    assert others[sharding] == held["estimate"]
    assert all(held["low"] <= peak <= held["high"] for peak in others.values())


def test_what_the_script_itself_shards_leaves_no_doubt(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = SHARED.replace("Trainer(model", 'args.fsdp = "full_shard"\nTrainer(model')
    command = f"accelerate launch --num_processes 4 --config_file $CONFIG {GIVEN}"
    write(tmp_path, train__py=script, start__sh=f"{command}\n")
    result = estimated(capsys, str(tmp_path / "start.sh"))
    assert "sharding" not in {one["name"] for one in result["assumptions"]}
    assert result["by_gpus"] == []


# -- by the number of GPUs -------------------------------------------------------------------------


def test_an_open_number_of_gpus_is_a_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    zero = {"zero_optimization": {"stage": 3}, "bf16": {"enabled": True}}
    (tmp_path / "ds.json").write_text(json.dumps(zero))
    command = f"deepspeed {GIVEN} --deepspeed ds.json\n"
    write(tmp_path, train__py=SHARED, start__sh=command)
    path = str(tmp_path / "start.sh")
    result = estimated(capsys, path, "--gpu", "l40s-48gb")
    rows = result["by_gpus"]
    assert [(one["world_size"], one["sharding"]) for one in rows] == [
        (count, "zero3") for count in (1, 2, 4, 8)
    ]
    peaks = [one["allocated"]["estimate"] for one in rows]
    assert peaks == sorted(peaks, reverse=True)
    assert len(set(peaks)) == 4
    assert peaks[0] == result["allocated"]["estimate"]
    for row in rows:
        known = estimated(capsys, path, "--assume", f"world_size={row['world_size']}")
        assert known["allocated"]["estimate"] == row["allocated"]["estimate"]
        assert known["by_gpus"] == []
    # It may fit on more than one: no verdict says that it does not.
    assert rows[0]["verdict"] == "does not fit"
    assert rows[-1]["verdict"] == "fits"
    assert result["verdict"] == "tight"
    assert run(["estimate", path, "--gpu", "l40s-48gb"]) == 0
    text = capsys.readouterr().out
    (line,) = [each for each in text.split("\n") if each.startswith("  zero3")]
    cells = re.findall(r"\d+\.\d\d (?:fits|tight|too much)", line)
    assert [float(cell.split()[0]) for cell in cells] == [round(one / 2**30, 2) for one in peaks]
    assert "zero3 over 1? GPUs" in text


@pytest.mark.parametrize(
    ("command", "counts"),
    [
        (f"torchrun {GIVEN}", [1, 2, 4, 8]),
        (f"torchrun --nproc_per_node 2 {GIVEN}", []),
        (f"python {GIVEN}", []),
        (f"accelerate launch --multi_gpu {GIVEN}", [1, 2, 4, 8]),
    ],
)
def test_a_launcher_without_a_number_leaves_it_open(
    command: str, counts: list[int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, train__py=SHARED, start__sh=f"{command}\n")
    result = estimated(capsys, str(tmp_path / "start.sh"))
    assert [one["world_size"] for one in result["by_gpus"]] == counts


# -- loaders ---------------------------------------------------------------------------------------

LOOP = """\
import torch
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", dtype=torch.bfloat16).cuda()
optimizer = torch.optim.AdamW(model.parameters())
loader = DataLoader(rows, batch_size=12)
for batch in loader:
    model(**batch).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
model.eval()
with torch.no_grad():
    for batch in loader:
        total += model(**batch).loss
"""


def test_a_loader_that_evaluation_reads_too_gives_the_rows_of_training(tmp_path: Path) -> None:
    write(tmp_path, train__py=LOOP)
    (found,) = settings(tmp_path / "train.py")
    assert found["micro_batch"] == 12
    apart = LOOP.replace("optimizer.zero_grad()\n", "optimizer.zero_grad()\nheld = 1\n").replace(
        "    for batch in loader:\n        total",
        "    for batch in DataLoader(rows, batch_size=64):\n        total",
    )
    write(tmp_path, train__py=apart)
    (found,) = settings(tmp_path / "train.py")
    assert found["micro_batch"] == 12


@pytest.mark.parametrize(
    ("text", "more"),
    [
        (AXOLOTL.replace("adapter: lora\n", ""), "qat:\n  weight_dtype: int4\n"),
        (TORCHTUNE, "quantizer:\n  _component_: a.Int8DynActInt4WeightQATQuantizer\n"),
    ],
)
def test_copies_of_training_that_knows_of_its_quantization_are_said(
    text: str, more: str, tmp_path: Path
) -> None:
    told = []
    for added in ("", more):
        write(tmp_path, own__yaml=f"{text}\n{added}")
        (found,) = settings(tmp_path / "own.yaml")
        told.append(["QAT" in one.reason for one in estimate(found).assumptions])
    before, after = told
    assert (sum(before), sum(after)) == (0, 1)
