"""``memlint estimate``: from a script and from settings, as text and as JSON."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import Any

import pytest

from memlint.cli.main import run

SCRIPT = """\
import torch
from datasets import load_dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, BitsAndBytesConfig
from trl import SFTConfig, SFTTrainer

bnb = BitsAndBytesConfig(
    load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=torch.bfloat16
)
model = AutoModelForCausalLM.from_pretrained(
    "meta-llama/Llama-3.1-8B", quantization_config=bnb, attn_implementation="flash_attention_2"
)
args = SFTConfig(
    output_dir="out", per_device_train_batch_size=4, gradient_accumulation_steps=4,
    max_length=2048, packing=True, gradient_checkpointing=True, optim="paged_adamw_8bit",
    bf16=True,
)
trainer = SFTTrainer(
    model=model, args=args, train_dataset=load_dataset("a", split="train"),
    peft_config=LoraConfig(r=16, lora_dropout=0.05, target_modules=["q_proj", "v_proj"]),
)
trainer.train()
"""


def written(folder: Path, text: str, name: str = "train.py") -> str:
    path = folder / name
    path.write_text(text)
    return str(path)


def as_json(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


def test_a_script_is_read_by_its_settings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, SCRIPT)
    assert run(["estimate", path, "--gpu", "rtx4090-24gb", "--output-format", "json"]) == 0
    result = as_json(capsys)
    assert result["fits"] is True
    assert 8 < result["allocated"]["estimate"] / 2**30 < 14
    # r x (in + out) of the query and value maps of 32 layers
    assert result["trainable_parameters"] == 32 * 16 * ((4096 + 4096) + (4096 + 1024))
    named = {item["name"] for item in result["assumptions"]}
    assert named.isdisjoint({"micro_batch", "seq_len", "optimizer", "lora.r", "checkpointing"})


def test_a_script_is_read_with_its_project(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written(tmp_path, "", "pyproject.toml")
    loading = """\
        from transformers import AutoModelForCausalLM
        def load():
            return AutoModelForCausalLM.from_pretrained("meta-llama/Llama-3.1-8B")
    """
    written(tmp_path, textwrap.dedent(loading), "loading.py")
    text = """\
        import argparse
        from loading import load
        from trl import SFTConfig, SFTTrainer
        parser = argparse.ArgumentParser()
        parser.add_argument("--batch", type=int, default=1)
        rows = parser.parse_args().batch
        args = SFTConfig(per_device_train_batch_size=rows, max_length=512, packing=True)
        SFTTrainer(model=load(), args=args, train_dataset=data).train()
    """
    path = written(tmp_path, textwrap.dedent(text))
    written(tmp_path, "python train.py --batch 6\n", "run.sh")
    assert run(["estimate", path, "--output-format", "json"]) == 0
    result = as_json(capsys)
    assert result["parameters"] == 8_030_261_248
    assert {"micro_batch"}.isdisjoint(item["name"] for item in result["assumptions"])
    written(tmp_path, "python train.py --batch 12\n", "run.sh")
    assert run(["estimate", path, "--output-format", "json"]) == 0
    twice = as_json(capsys)
    assert twice["allocated"]["estimate"] > result["allocated"]["estimate"]


def test_the_text_has_phases_what_was_read_and_a_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(["estimate", written(tmp_path, SCRIPT), "--gpu", "t4"])
    text = capsys.readouterr().out
    for part in (
        "peak:",
        "nvidia-smi",
        "optimizer step",
        "read: trl.SFTTrainer",
        "t4-16gb",
        "assumed",
    ):
        assert part in text


def test_a_run_that_does_not_fit_exits_with_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, '{"model": "meta-llama/Llama-3.1-8B", "gpu": "t4"}', "run.json")
    assert run(["estimate", "--settings", path]) == 1
    assert "does not fit" in capsys.readouterr().out


def test_assumptions_and_a_config_are_taken(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = {
        "model_type": "llama",
        "hidden_size": 256,
        "intermediate_size": 512,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "vocab_size": 1000,
    }
    model = written(tmp_path, json.dumps(config), "config.json")
    settings = written(tmp_path, "{}", "run.json")
    options = ["--model-config", model, "--assume", "seq_len=64", "--assume", "micro_batch=2"]
    assert run(["estimate", "--settings", settings, *options, "--output-format", "json"]) == 0
    named = {item["name"] for item in as_json(capsys)["assumptions"]}
    assert named.isdisjoint({"seq_len", "micro_batch"})


LOOP = """\
import torch
from transformers import AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained("gpt2", torch_dtype=torch.bfloat16)
optimizer = torch.optim.AdamW(model.parameters())
for batch in loader:
    loss = model(**batch).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""


LOADED = 'model = AutoModelForCausalLM.from_pretrained("gpt2", torch_dtype=torch.bfloat16)'


def test_a_model_made_from_a_published_configuration_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = (
        "from transformers import AutoConfig\n"
        'model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained("gpt2"))'
    )
    path = written(tmp_path, LOOP.replace(LOADED, made))
    assert run(["estimate", path, "--output-format", "json"]) == 0
    assert as_json(capsys)["parameters"] == 124_439_808


def test_a_loop_is_read_as_well(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["estimate", written(tmp_path, LOOP), "--output-format", "json"]) == 0
    result = as_json(capsys)
    assert result["parameters"] == 124_439_808
    assert {item["name"] for item in result["assumptions"]} >= {"micro_batch", "seq_len"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give a SCRIPT"),
        (["--settings", "missing.json"], "cannot be read"),
        (["nothing.py"], "nothing.py"),
        (["empty.py"], "trains nothing"),
        (["made.py"], "name one with --assume model=NAME"),
        (["--settings", "bad.json"], "is no JSON"),
        (["--settings", "odd.json"], "do you mean 'micro_batch'"),
        (["train.py", "--assume", "seq_len"], "KEY=VALUE"),
        (["train.py", "--gpu", "abacus"], "unknown GPU"),
    ],
)
def test_bad_input_is_one_line(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path, SCRIPT)
    written(tmp_path, "print('hello')\n", "empty.py")
    written(tmp_path, LOOP.replace(LOADED, "model = GPT2LMHeadModel(config)"), "made.py")
    written(tmp_path, "{", "bad.json")
    written(tmp_path, '{"model": "gpt2", "micro_batchs": 1}', "odd.json")
    assert run(["estimate", *arguments]) == 2
    errors = capsys.readouterr().err
    assert message in errors
    assert "Traceback" not in errors


PINNED = """\
# /// script
# dependencies = ["trl==0.9.6", "transformers==4.44.0"]
# ///
from trl import SFTConfig, SFTTrainer

SFTTrainer("Qwen/Qwen3-0.6B", args=SFTConfig("out"), train_dataset=rows).train()
"""


def test_versions_that_the_script_pins_are_those_of_the_estimate(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, PINNED)
    run(["estimate", path])
    pinned = capsys.readouterr().out
    assert "loss full_logits?" in pinned
    run(["estimate", path, "--target", "trl=0.9.6,transformers=4.44.0"])
    assert capsys.readouterr().out == pinned
    run(["debug", path])
    assert "trl=0.9.6,transformers=4.44.0" in capsys.readouterr().out


def test_the_configuration_names_the_versions_the_gpu_and_what_is_assumed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, PINNED.rpartition("# ///\n")[2])
    options = ["--target", "trl=0.15,transformers=4.48", "--gpu", "t4"]
    status = run(["estimate", path, *options, "--assume", "seq_len=512"])
    said = capsys.readouterr().out
    assert "x 512 tokens" in said
    assert "fit t4" in said
    settings = 'target = { trl = "0.15", transformers = "4.48" }\ngpu = "t4"\n'
    written(tmp_path, settings + "assume = { seq_len = 512 }\n", "memlint.toml")
    assert run(["estimate", path]) == status
    assert capsys.readouterr().out == said
    run(["estimate", path, "--assume", "seq_len=256", "--gpu", "a100-80gb"])
    said = capsys.readouterr().out
    assert "x 256 tokens" in said
    assert "fits a100-80gb" in said
    written(tmp_path, "gpu = 5\n", "memlint.toml")
    assert run(["estimate", path]) == 2
    assert "memlint.toml" in capsys.readouterr().err


def test_commands_that_disagree_bring_no_deepspeed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(
        tmp_path,
        "from transformers import AutoModelForCausalLM, HfArgumentParser\n"
        "from transformers import Trainer, TrainingArguments\n"
        "(args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()\n"
        "model = AutoModelForCausalLM.from_pretrained('gpt2')\n"
        "Trainer(model, args, train_dataset=rows).train()\n",
    )
    for command in ("python train.py --output_dir a", "torchrun --nproc_per_node 2 train.py"):
        with (tmp_path / "run.sh").open("a") as file:
            file.write(f"{command} --bf16 True\n")
    assert run(["estimate", path]) == 0
    assert "DeepSpeed" not in capsys.readouterr().out
