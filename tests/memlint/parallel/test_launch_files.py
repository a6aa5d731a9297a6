"""What ``--write-launch`` writes: read by Accelerate's own class, and by our own reader."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from accelerate.commands.config.config_args import (  # type: ignore[import-untyped]
    load_config_from_file,
)
from accelerate.commands.launch import (  # type: ignore[import-untyped]
    _validate_launch_command,
    launch_command_parser,
)
from accelerate.utils.launch import prepare_multi_gpu_env  # type: ignore[import-untyped]

from memlint.cli.main import run
from memlint.memory.settings import read_settings
from memlint.memory.sharding import unread
from memlint.parallel.launch_writer import CannotWriteError, launch_files, write_files
from memlint.parallel.sharding_search import Candidate, Shared, share
from memlint.source import Source

_SIZE = re.compile(r"\d+\.\d+")
ROOT = Path(__file__).parents[3]
SCRIPT = """\
from datasets import load_dataset
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-1.5B", dtype="bfloat16")
args = SFTConfig(
    "out", per_device_train_batch_size={rows}, gradient_accumulation_steps={steps},
    max_length=16384, bf16=True, loss_type="nll",
)
SFTTrainer(model, args=args, train_dataset=load_dataset("own/rows", split="train")).train()
"""
LOOP = """\
import torch
{imports}
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B", dtype="bfloat16")
optimizer = torch.optim.AdamW(model.parameters())
for batch in loader:
    model(**batch).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""
GPU = ["--gpu", "h100-80gb"]
ASKED = ["estimate", "--fit", *GPU, "--gpus", "8"]


def found(**more: Any) -> Shared:
    values = {"model": "Qwen/Qwen2.5-1.5B", "trainer": "trl.SFTTrainer", "micro_batch": 1,
              "gradient_accumulation": 2, "seq_len": 16384, "weights_dtype": "bfloat16",
              "loss": "chunked", "gpu": "h100-80gb"}  # fmt: skip
    return share(read_settings({**values, **more}), (), 8)


ALL = found()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def saved(name: str, text: str) -> Source:
    Path(name).write_text(text)
    return Source(name, text)


def written(candidate: Candidate, shared: Shared = ALL) -> None:
    text = SCRIPT.format(rows=candidate.micro_batch, steps=candidate.accumulation)
    files = launch_files(shared._replace(chosen=candidate), "many", saved("train.py", text))
    write_files("many", files)


@pytest.mark.parametrize("candidate", ALL.candidates, ids=lambda one: one.strategy.name)
def test_what_is_written_is_read_as_what_was_found(
    candidate: Candidate, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written(candidate)
    run(["estimate", *GPU, "--output-format", "json", "train.py"])
    said = json.loads(capsys.readouterr().out)
    assert said["allocated"]["estimate"] == pytest.approx(candidate.peak, rel=1e-6)


@pytest.mark.parametrize("candidate", ALL.candidates, ids=lambda one: one.strategy.name)
def test_accelerate_reads_what_is_written(candidate: Candidate, folder: Path) -> None:
    written(candidate)
    read = load_config_from_file("many/accelerate.yaml")
    assert read.distributed_type.value == candidate.strategy.engine
    assert read.num_processes == 8
    words = ["--config_file", "many/accelerate.yaml", "train.py"]
    arguments, _, _ = _validate_launch_command(launch_command_parser().parse_args(words))
    strategy = candidate.strategy
    assert arguments.use_fsdp == (strategy.sharding == "fsdp2")
    assert arguments.use_deepspeed == strategy.sharding.startswith("zero")
    if arguments.use_deepspeed:
        # Accelerate refuses its own word on dtypes beside a file of DeepSpeed's.
        assert read.mixed_precision is None
        engine = json.loads(Path(arguments.deepspeed_config_file).read_text())
        assert engine["zero_optimization"]["stage"] == int(strategy.sharding[-1])
        assert unread(engine["zero_optimization"]) == ()
        return
    environment = prepare_multi_gpu_env(arguments)
    assert environment["ACCELERATE_MIXED_PRECISION"] == "bf16"
    if arguments.use_fsdp:
        assert environment["FSDP_VERSION"] == "2"
        assert environment["FSDP_OFFLOAD_PARAMS"] == str(bool(strategy.host)).lower()
        contexts = environment.get("PARALLELISM_CONFIG_CP_SIZE", "1")
        assert contexts == str(strategy.contexts)


def test_older_releases_get_the_older_fsdp(folder: Path) -> None:
    shared = found(versions={"accelerate": "1.3.0"})
    (old,) = [one for one in shared.candidates if one.strategy.name == "fsdp"]
    written(old, shared)
    section = yaml.safe_load(Path("many/accelerate.yaml").read_text())["fsdp_config"]
    assert section["fsdp_sharding_strategy"] == "FULL_SHARD"
    assert "fsdp_version" not in section
    assert load_config_from_file("many/accelerate.yaml").fsdp_config == section


def test_the_command_writes_once(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved("train.py", SCRIPT.format(rows=1, steps=2))
    assert run([*ASKED, "--write-launch", "many", "train.py"]) == 0
    said = capsys.readouterr().out
    assert "chosen: " in said
    assert "start it with: sh many/launch.sh" in said
    kept = {path.name: path.read_text() for path in Path("many").iterdir()}
    assert "exec accelerate launch --config_file many/accelerate.yaml train.py" in kept["launch.sh"]
    assert run([*ASKED, "--write-launch", "many", "train.py"]) == 2
    assert "is there already: nothing is written" in capsys.readouterr().err
    assert {path.name: path.read_text() for path in Path("many").iterdir()} == kept


def test_json_carries_the_candidates(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved("train.py", SCRIPT.format(rows=1, steps=2))
    words = [*ASKED, "--output-format", "json", "--write-launch", "many", "train.py"]
    assert run(words) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["fits"] is True
    assert said["chosen"] in said["candidates"]
    assert said["rows_a_step"] == 16
    assert all(Path(each).exists() for each in said["written"])


def test_nothing_is_left_half_written(folder: Path) -> None:
    with pytest.raises(CannotWriteError, match="takes no files"):
        write_files("many", {"one": "a", "x" * 300: "b"})
    assert not Path("many").exists()
    Path("kept").mkdir()
    saved("kept/other", "mine")
    with pytest.raises(CannotWriteError, match="takes no files"):
        write_files("kept", {"one": "a", "x" * 300: "b"})
    assert [path.name for path in Path("kept").iterdir()] == ["other"]
    saved("a_file", "")
    with pytest.raises(CannotWriteError, match="takes no files"):
        write_files("a_file/many", {"one": "a"})


def said_of(words: list[str], capsys: pytest.CaptureFixture[str], status: int = 2) -> str:
    assert run(words) == status
    captured = capsys.readouterr()
    assert not Path("many").exists()
    return captured.err


def test_what_cannot_be_is_one_clear_error(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved("train.py", SCRIPT.format(rows=1, steps=2))
    write = ["--write-launch", "many", "train.py"]
    assert "--gpus" in said_of(["estimate", *GPU, "--gpus", "0", "train.py"], capsys)
    needs = "needs --fit and --gpus"
    assert needs in said_of(["estimate", *GPU, "--gpus", "8", *write], capsys)
    assert needs in said_of(["estimate", "--fit", *GPU, *write], capsys)
    assert "needs --gpu NAME" in said_of(["estimate", "--fit", "--gpus", "8", "train.py"], capsys)
    too_large = ["--assume", "model=meta-llama/Llama-3.1-405B", "--gpus", "2", *write]
    assert "nothing is written: no way" in said_of(
        ["estimate", "--fit", "--gpu", "t4", *too_large], capsys
    )
    saved("recipe.yaml", "base_model: Qwen/Qwen2.5-0.5B\ndatasets:\n  - path: a\nsequence_len: 9\n")
    recipe = [*ASKED, "--write-launch", "many", "recipe.yaml"]
    assert "how GPUs share the run" in said_of(recipe, capsys)
    saved("loop.py", LOOP.format(imports=""))
    loop = [*ASKED, "--write-launch", "many", "loop.py"]
    assert "without Accelerate" in said_of(loop, capsys)


def test_loops_with_accelerate_and_recipes_of_trl_are_started(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved("loop.py", LOOP.format(imports="from accelerate import Accelerator"))
    assert run([*ASKED, "--write-launch", "a", "loop.py"]) == 0
    assert "accelerate launch --config_file a/accelerate.yaml loop.py" in _command("a")
    saved("sft.yaml", "model_name_or_path: Qwen/Qwen2.5-0.5B\ndataset_name: own/rows\n"
                      "per_device_train_batch_size: 2\nmax_length: 512\nbf16: true\n")  # fmt: skip
    assert run([*ASKED, "--write-launch", "b", "sft.yaml"]) == 0
    assert "trl sft --config sft.yaml --accelerate_config b/accelerate.yaml" in _command("b")
    capsys.readouterr()


def test_several_machines_are_told_apart(folder: Path) -> None:
    values = {"model": "Qwen/Qwen2.5-7B", "trainer": "trl.SFTTrainer", "gpu": "a100-40gb"}
    shared = share(read_settings(values), (), 16)
    files = launch_files(shared, "many", saved("train.py", ""))
    assert yaml.safe_load(files["accelerate.yaml"])["num_machines"] == 2
    assert '--machine_rank "$RANK"' in files["launch.sh"]


def test_so_many_gpus_without_a_search(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved("train.py", SCRIPT.format(rows=1, steps=2))
    run(["estimate", *GPU, "--gpus", "4", "train.py"])
    said = capsys.readouterr().out
    assert "ddp? over 4 GPUs" in said
    assert "several GPUs without a strategy" in said


def test_the_documented_examples_are_what_is_said(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (ROOT / "docs" / "prices.md").read_text().partition("## In a few lines")[2]
    saved("train.py", page.partition("```python\n")[2].partition("```")[0])
    examples = [each.partition("```")[0] for each in page.split("```text\n$ memlint ")[1:]]
    assert len(examples) == 2
    for example, status in zip(examples, (1, 0), strict=True):
        command, _, said = example.partition("\n")
        assert run(command.split()) == status
        printed = capsys.readouterr().out
        # Words are the same, and sizes nearly so: the page is not written anew for each of them.
        assert _SIZE.sub("#", printed).split() == _SIZE.sub("#", said).split()
        sizes = [[float(size) for size in _SIZE.findall(text)] for text in (printed, said)]
        assert sizes[0] == pytest.approx(sizes[1], rel=0.05, abs=0.2)


def _command(folder: str) -> str:
    return (Path(folder) / "launch.sh").read_text()
