"""A script, its recipe, the launch command and the launcher's files, seen as one run."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from memlint.cli.main import run

SCRIPT = """\
from trl import GRPOConfig, GRPOTrainer, ModelConfig, TrlParser

training_args, model_args = TrlParser((GRPOConfig, ModelConfig)).parse_args_and_config()
trainer = GRPOTrainer(
    model=model_args.model_name_or_path, reward_funcs=[score], args=training_args,
    train_dataset=dataset,
)
trainer.train()
"""
RECIPE = """\
# the policy
model_name_or_path: Qwen/Qwen3-8B
dtype: float32
bf16: false   # true saves time
learning_rate: 1.0e-6
output_dir: out
evaluation_strategy: steps
"""
SFT = """\
model_name_or_path: Qwen/Qwen3-8B
bf16: true
max_length: 1024
output_dir: out
learning_rate: 1.0e-5
per_device_train_batch_size: 4
packing: false
"""
ZERO_3 = """\
compute_environment: LOCAL_MACHINE
distributed_type: DEEPSPEED
deepspeed_config:
  zero_stage: 3
mixed_precision: 'no'
num_processes: 8
"""
LAUNCH = """\
accelerate launch --config_file configs/zero3.yaml \\
    scripts/grpo.py --config recipes/policy.yaml
trl sft --config recipes/first.yaml
"""
VERSIONS = "trl==1.16.0\ntransformers==5.23.0\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in {
        "requirements.txt": VERSIONS,
        "scripts/grpo.py": SCRIPT,
        "recipes/policy.yaml": RECIPE,
        "recipes/first.yaml": SFT,
        "configs/zero3.yaml": ZERO_3,
        "launch.sh": LAUNCH,
    }.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def found(capsys: pytest.CaptureFixture[str], *arguments: str) -> set[str]:
    run(["check", "--no-cache", "--output-format", "concise", *arguments])
    lines = capsys.readouterr().out.splitlines()
    return {
        f"{place.split(':')[0]}:{place.split(':')[1]} {code}"
        for place, code in (line.split()[:2] for line in lines)
        if code.startswith("MEM")
    }


def test_each_fault_is_found_where_its_value_lives(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert found(capsys, "recipes") >= {
        "recipes/policy.yaml:2 MEM602",
        "recipes/policy.yaml:4 MEM402",
        "recipes/policy.yaml:7 MEM901",
        "recipes/first.yaml:7 MEM103",
    }


def test_each_fault_is_fixed_where_its_value_lives(project: Path) -> None:
    run(["fix", "--no-cache", "--unsafe-fixes", "--select", "MEM402,MEM602,MEM901", "recipes"])
    assert (project / "recipes/policy.yaml").read_text() == RECIPE.replace(
        "bf16: false", "bf16: true"
    ).replace("evaluation_strategy", "eval_strategy") + "ds3_gather_for_generation: false\n"
    assert (project / "recipes/first.yaml").read_text() == SFT
    assert (project / "configs/zero3.yaml").read_text() == ZERO_3
    assert (project / "launch.sh").read_text() == LAUNCH


def test_without_sharding_nothing_is_gathered(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "configs/zero3.yaml").write_text(ZERO_3.replace("stage: 3", "stage: 2"))
    assert "recipes/policy.yaml:2 MEM602" not in found(capsys, "recipes")


def test_commands_that_disagree_decide_nothing(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "other.sh").write_text("python scripts/grpo.py --config recipes/policy.yaml\n")
    assert "recipes/policy.yaml:2 MEM602" not in found(capsys, "recipes")


PREPARED = """\
from peft import prepare_model_for_kbit_training
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("some", quantization_config=eight_bits)
model = prepare_model_for_kbit_training(model)
Trainer(model, TrainingArguments("out", bf16=True), train_dataset=rows).train()
"""


@pytest.mark.parametrize(
    ("other", "faults"),
    [
        ("torchrun --nproc_per_node=4 tune.py", {"tune.py:5 MEM303"}),
        ("accelerate launch --config_file configs/zero3.yaml tune.py", set()),
        ("torchrun --nproc_per_node=4 another.py", {"tune.py:5 MEM303"}),
    ],
)
def test_one_process_or_several_divide_no_weights(
    project: Path, capsys: pytest.CaptureFixture[str], other: str, faults: set[str]
) -> None:
    (project / "tune.py").write_text(PREPARED)
    (project / "tune.sh").write_text(f"python tune.py --rows few\n{other}\n")
    assert found(capsys, "tune.py", "--select", "MEM303") == faults


def test_mixed_precision_of_the_launcher_counts(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "configs/zero3.yaml").write_text(ZERO_3.replace("'no'", "bf16"))
    assert "recipes/policy.yaml:4 MEM402" not in found(capsys, "recipes")


def test_a_key_that_every_command_sets_is_not_the_recipe_s(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "launch.sh").write_text("trl sft --config recipes/first.yaml --packing true\n")
    assert not [each for each in found(capsys) if "MEM103" in each]
    (project / "launch.sh").write_text("trl sft --config recipes/first.yaml --packing false\n")
    assert [each for each in found(capsys) if "MEM103" in each] == ["launch.sh:1 MEM103"]


def test_debug_shows_the_run(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["debug", "recipes/policy.yaml"]) == 0
    shown = capsys.readouterr().out
    assert "recipe of TRL" in shown
    assert "launch.sh, line 1: accelerate" in shown
    assert "configuration of accelerate: configs/zero3.yaml" in shown
    assert run(["debug", "scripts/grpo.py"]) == 0
    assert "recipe: recipes/policy.yaml" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "text", "row"),
    [
        ("Dockerfile", 'FROM x\nCMD ["accelerate", "launch", "t.py", "--lr", "1"]\n', 2),
        ("Makefile", "train:\n\taccelerate launch t.py --lr 1\n", 2),
        ("justfile", "train:\n  accelerate launch t.py --lr 1\n", 2),
        ("run.sh", 'A=(--lr 1)\naccelerate launch t.py "${A[@]}" "$@"\n', 2),
    ],
)
def test_debug_shows_the_commands_of_a_file(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
    text: str,
    row: int,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_text(text)
    assert run(["debug", name]) == 0
    shown = capsys.readouterr().out
    assert f"command, line {row}: accelerate\n    script: t.py\n" in shown
    assert "    lr = '1'\n" in shown
    (tmp_path / name).write_text("FROM x\n")
    assert run(["debug", name]) == 2
    assert "starts no training script" in capsys.readouterr().err


def test_a_command_without_settings_of_its_own_names_the_file_that_has_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "go.sh").write_text("trl sft --config r.yaml\n")
    assert run(["check", "go.sh"]) == 2
    assert "go.sh: takes all settings from r.yaml: check that" in capsys.readouterr().out
    (tmp_path / "go.sh").write_text("trl sft --config r.yaml\ntrl dpo --config s.yaml\n" * 2)
    assert run(["check", "go.sh"]) == 2
    assert "takes all settings from r.yaml and s.yaml: check these" in capsys.readouterr().out


def test_recipes_and_commands_in_which_nothing_is_found_have_peaks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of several commands no single one is the file's."""
    monkeypatch.chdir(tmp_path)
    recipe = "model_name_or_path: Qwen/Qwen2.5-0.5B\ndataset_name: x/y\noutput_dir: out\n"
    (tmp_path / "a.yaml").write_text(f"{recipe}per_device_train_batch_size: 2\n")
    (tmp_path / "b.yaml").write_text(f"{recipe}per_device_train_batch_size: 32\n")
    assert run(["compare", "a.yaml", "b.yaml"]) == 0
    assert re.match(r"b.yaml: peak [\d.]+ GiB -> [\d.]+ GiB, \+", capsys.readouterr().out)
    words = "trl sft --model_name_or_path Qwen/Qwen2.5-0.5B --dataset_name x/y --packing"
    (tmp_path / "a.sh").write_text(f"{words} --per_device_train_batch_size 2\n")
    (tmp_path / "b.sh").write_text(f"{words} --per_device_train_batch_size 32\n")
    assert run(["compare", "a.sh", "b.sh"]) == 0
    assert re.match(r"b.sh: peak [\d.]+ GiB -> [\d.]+ GiB, \+", capsys.readouterr().out)
    rows = "--per_device_train_batch_size"
    (tmp_path / "c.sh").write_text(f"{words} {rows} 2\n{words} {rows} 3\n")
    run(["compare", "a.sh", "c.sh"])
    assert "->" not in capsys.readouterr().out


def test_a_cached_result_holds_as_long_as_the_launcher_s_files(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["check", "--output-format", "concise", "recipes"]
    run(arguments)
    assert "MEM602" in capsys.readouterr().out
    (project / "configs/zero3.yaml").write_text(ZERO_3.replace("stage: 3", "stage: 1"))
    run(arguments)
    assert "MEM602" not in capsys.readouterr().out


TUNE = """\
# a run
tune run full_finetune_single_device --config llama3_2/1B_full_single_device \\
    dtype=fp32 enable_activation_checkpointing=False \\
    "enable_activation_offloading=True" optimizer_in_bwd=True gradient_accumulation_steps=8 \\
    dataset.packed=False batch_size=4 tokenizer.max_seq_len=null loss=torch.nn.CrossEntropyLoss
tune run generate --config generation dtype=fp32
"""


def test_overrides_of_torchtune_are_found_and_fixed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.sh").write_text(TUNE)
    assert found(capsys) >= {
        "run.sh:3 MEM401",
        "run.sh:3 MEM301",
        "run.sh:4 MEM903",
        "run.sh:4 MEM505",
        "run.sh:5 MEM103",
    }
    run(["fix", "--no-cache", "--unsafe-fixes", "--select", "MEM103,MEM301,MEM401,MEM505,MEM201"])
    expected = TUNE.replace("dtype=fp32 enable", "dtype=bf16 enable")
    for old, new in (
        ("in_bwd=True", "in_bwd=False"),
        ("packed=False", "packed=True"),
        ("max_seq_len=null", "max_seq_len=2048"),
        ("torch.nn.CrossEntropyLoss", "torchtune.modules.loss.CEWithChunkedOutputLoss"),
    ):
        expected = expected.replace(old, new)
    assert (tmp_path / "run.sh").read_text() == expected


TRL = """\
export BASE=Qwen/Qwen3-0.6B
trl sft --model_name_or_path "$BASE" --dataset_name x --output_dir out \\
    --max_seq_length 512 --overwrite_output_dir true --evaluation_strategy steps
"""


def test_flags_of_trl_are_found_and_fixed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.sh").write_text(TRL)
    (tmp_path / "requirements.txt").write_text(VERSIONS)
    assert "run.sh:3 MEM901" in found(capsys)
    run(["fix", "--no-cache", "--select", "MEM901"])
    assert (tmp_path / "run.sh").read_text() == TRL.replace("max_seq_length", "max_length").replace(
        " --overwrite_output_dir true", ""
    ).replace("evaluation_strategy", "eval_strategy")


FACTORY = """\
model_name_or_path: meta-llama/Llama-3.2-1B
stage: dpo
do_train: true
finetuning_type: lora
template: llama3
output_dir: out
dpo_beta: 0.1
"""


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("requirements.txt", "llamafactory==0.7.1\n", []),
        ("requirements.txt", "llamafactory[torch,metrics]>=0.9\n", ["MEM901"]),
        ("requirements.txt", "git+https://github.com/hiyouga/LLaMA-Factory.git@v0.7.1\n", []),
        ("pyproject.toml", '[project]\ndependencies = ["llamafactory<0.8"]\n', []),
        ("environment.yml", "dependencies:\n  - pip:\n    - llamafactory==0.7.0\n", []),
        ("requirements.txt", "llamafactory==9.0\n", []),  # newer than the tables
        ("requirements.txt", "", ["MEM901"]),
        ("pyproject.toml", '[project]\ndependencies = ["llamafactory==0.7.1"]\n', []),
    ],
)
def test_a_recipe_is_held_to_the_release_that_the_project_names(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
    text: str,
    expected: list[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dpo.yaml").write_text(FACTORY)
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / name).write_text(text)
    assert sorted(each.split()[1] for each in found(capsys, "--select", "MEM901")) == expected
    (tmp_path / "dpo.yaml").unlink()
    (tmp_path / "run.sh").write_text(
        "llamafactory-cli train stage=dpo do_train=true finetuning_type=lora dpo_beta=0.1\n"
    )
    assert sorted(each.split()[1] for each in found(capsys, "--select", "MEM901")) == expected


def test_another_release_makes_another_cached_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dpo.yaml").write_text(FACTORY)
    for version, expected in (("0.7.1", 0), ("0.9.0", 1)):
        (tmp_path / "requirements.txt").write_text(f"llamafactory=={version}\n")
        assert run(["check", "--select", "MEM901"]) == expected


def test_a_key_of_a_later_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dpo.yaml").write_text(FACTORY.replace("dpo_beta", "pref_beta"))
    (tmp_path / "requirements.txt").write_text("llamafactory==0.7.1\n")
    run(["check", "--no-cache", "--select", "MEM901", "--output-format", "concise"])
    assert "does not take `pref_beta` (new in 0.8.0)" in capsys.readouterr().out


def test_two_keys_of_a_recipe_that_a_command_makes_wrong_are_two_findings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text("")
    keys = "max_completion_length: 64\nmask_truncated_completions: true\n"
    (tmp_path / "one.yaml").write_text(f"model_name_or_path: m/m\n{keys}")
    (tmp_path / "run.sh").write_text("trl rloo --config one.yaml --max_steps -1\n")
    (tmp_path / "other.sh").write_text("trl sft --config one.yaml --max_steps -1\n")
    run(["check", "--no-cache", "--target", "trl=0.12.0,transformers=4.46.0",
         "--output-format", "concise", "run.sh"])  # fmt: skip
    lines = [line for line in capsys.readouterr().out.splitlines() if "run.sh:1:1: MEM901" in line]
    assert len({line for line in lines if "does not take `m" in line}) == 2


def test_layers_that_torchtune_chooses_are_no_missing_checkpoints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.sh").write_text(TUNE.replace("batch_size=4", "batch_size=4 ac_mode=selective"))
    reported = found(capsys)
    assert "run.sh:3 MEM401" in reported
    assert "run.sh:3 MEM301" not in reported


def test_a_recipe_runs_with_what_the_notebook_that_starts_it_installs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    pins, go = "%pip install trl==0.12.1 transformers==4.46.3", "!trl sft --config r.yaml"
    cell = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
    cells = [{**cell, "source": pins}, {**cell, "source": go}]
    book = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    recipe = "model_name_or_path: Qwen/Qwen3-8B\nmax_seq_length: 1024\noutput_dir: out\n"
    (tmp_path / "r.yaml").write_text(recipe)
    (tmp_path / "go.ipynb").write_text(json.dumps(book))
    run(["check", "r.yaml"])
    assert "MEM901" not in capsys.readouterr().out
    run(["fix", "r.yaml"])
    assert (tmp_path / "r.yaml").read_text().startswith(f"{recipe}gradient_checkpointing: true\n")
    # Where a shell starts it, too, it runs with the newest release.
    (tmp_path / "go.sh").write_text("trl sft --config r.yaml\n")
    run(["check", "r.yaml"])
    assert "MEM901" in capsys.readouterr().out
