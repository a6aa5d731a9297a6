"""What a launcher decides for a script, a recipe and a command: sharding, precision, processes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from memlint.cli.main import run

GRPO = """\
from trl import GRPOConfig, GRPOTrainer
args = GRPOConfig("out", bf16=True, gradient_accumulation_steps=1)
trainer = GRPOTrainer(model="Qwen/Qwen2.5-7B", reward_funcs=[score], args=args, train_dataset=d)
trainer.train()
"""
SFT = """\
from trl import SFTConfig, SFTTrainer
args = SFTConfig("out"OPTIONS)
trainer = SFTTrainer(model="Qwen/Qwen2.5-7B", args=args, train_dataset=d)
trainer.train()
"""
PARSED = """\
from trl import ModelConfig, SFTConfig, SFTTrainer, TrlParser
args, model_args = TrlParser((SFTConfig, ModelConfig)).parse_args_and_config()
trainer = SFTTrainer(model=model_args.model_name_or_path, args=args, train_dataset=d)
trainer.train()
"""
LOOP = """\
import torch
from accelerate import Accelerator
from transformers import AutoModelForCausalLM
accelerator = Accelerator(PRECISION)
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-7B", dtype=torch.float32)
optimizer = torch.optim.AdamW(model.parameters())
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for batch in loader:
    loss = model(**batch).loss
    accelerator.backward(loss)
    optimizer.step()
    optimizer.zero_grad()
"""
RECIPE = """\
model_name_or_path: Qwen/Qwen2.5-7B
output_dir: out
learning_rate: 1.0e-5
dtype: bfloat16
"""
ZERO = """\
compute_environment: LOCAL_MACHINE
distributed_type: DEEPSPEED
deepspeed_config:
  zero_stage: 3
  offload_optimizer_device: none
mixed_precision: bf16
num_machines: 1
num_processes: 8
"""
FSDP = """\
compute_environment: LOCAL_MACHINE
distributed_type: FSDP
fsdp_config:
  fsdp_activation_checkpointing: true
  fsdp_version: 2
mixed_precision: bf16
num_processes: 4
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, text in {
        "pyproject.toml": "",
        "grpo.py": GRPO,
        "z3.yaml": ZERO,
        "z2.yaml": ZERO.replace("stage: 3", "stage: 2"),
        "by_file.yaml": ZERO.replace("  zero_stage: 3\n", "  deepspeed_config_file: ds.json\n"),
        "ds.json": '{"zero_optimization": {"stage": 3}, "train_batch_size": "auto"}',
        "fsdp.yaml": FSDP,
        "no.yaml": ZERO.replace("DEEPSPEED", "'NO'").replace("bf16", "'no'"),
    }.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def found(capsys: pytest.CaptureFixture[str], *codes: str, versions: str = "newest") -> set[str]:
    options = ["--output-format", "concise", "--target", versions, "--select", ",".join(codes)]
    run(["check", "--no-cache", *options, "."])
    lines = (line.split() for line in capsys.readouterr().out.splitlines() if ": MEM" in line)
    return {f"{':'.join(place.split(':')[:2])} {code}" for place, code, *_ in lines}


@pytest.mark.parametrize(
    "text",
    [
        "accelerate launch --config_file z3.yaml grpo.py",
        "accelerate launch --config_file=by_file.yaml grpo.py",
        "accelerate launch --use_deepspeed --zero_stage 3 --num_processes 16 grpo.py",
        "accelerate launch --use_deepspeed --deepspeed_config_file ds.json grpo.py",
        "accelerate launch --config_file z2.yaml --zero_stage 3 grpo.py",
        "python -m accelerate.commands.launch --config_file z3.yaml grpo.py",
        "C=z3.yaml\nsrun accelerate launch --config_file $C grpo.py",
        # Its folder has another name by now.
        "accelerate launch --config_file z3.yaml first/grpo.py",
    ],
)
def test_stage_3_of_the_launcher_is_the_script_s(
    here: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    assert found(capsys, "MEM501", "MEM504", "MEM602") == {"grpo.py:3 MEM501", "grpo.py:3 MEM504"}
    (here / "run.sh").write_text(f"{text}\n")
    assert found(capsys, "MEM501", "MEM504", "MEM602") == {"grpo.py:2 MEM602"}


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ("accelerate launch --config_file z3.yaml --num_processes 2 grpo.py", {"MEM602"}),
        ("accelerate launch --config_file z3.yaml grpo.py\npython grpo.py", set()),
        # It divides nothing, or its file is the reader's own.
        ("torchrun --nproc_per_node 2 grpo.py", {"MEM501", "MEM504"}),
        ("accelerate launch --config_file yours.yaml grpo.py", {"MEM501", "MEM504"}),
    ],
)
def test_what_a_page_shows_divides_the_states(
    here: Path, capsys: pytest.CaptureFixture[str], text: str, codes: set[str]
) -> None:
    (here / "README.md").write_text(f"# Training\n\n```bash\n{text}\n```\n")
    lines = found(capsys, "MEM501", "MEM504", "MEM602")
    assert {line.split()[1] for line in lines} == codes
    # A file of commands is what is run.
    (here / "run.sh").write_text("python grpo.py\n")
    lines = found(capsys, "MEM501", "MEM504", "MEM602")
    assert {line.split()[1] for line in lines} == {"MEM501", "MEM504"}


@pytest.mark.parametrize(
    "text",
    [
        "accelerate launch --config_file z2.yaml grpo.py",
        "accelerate launch --config_file $CONFIG grpo.py",
        "accelerate launch --config_file elsewhere.yaml grpo.py",
        "accelerate launch --config_file z3.yaml grpo.py\naccelerate launch grpo.py",
        "accelerate launch --config_file z3.yaml --zero_stage $1 grpo.py",
    ],
)
def test_what_may_be_another_stage_is_unsure(
    here: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    (here / "run.sh").write_text(f"{text}\n")
    assert found(capsys, "MEM501", "MEM504", "MEM602") == set()


@pytest.mark.parametrize(
    "text",
    [
        "echo accelerate launch --config_file z3.yaml grpo.py",
        "# accelerate launch --config_file z3.yaml grpo.py",
        "accelerate launch --config_file z3.yaml other.py",
        "accelerate launch --config_file no.yaml --num_processes 1 grpo.py",
        "python grpo.py --config_file z3.yaml",
        # The script reads no arguments: nothing tells its trainer of the file.
        "accelerate launch --zero_stage 3 --num_processes 1 grpo.py --deepspeed ds.json",
    ],
)
def test_what_shards_nothing_changes_nothing(
    here: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    (here / "run.sh").write_text(f"{text}\n")
    assert found(capsys, "MEM501", "MEM504", "MEM602") == {"grpo.py:3 MEM501", "grpo.py:3 MEM504"}


def test_several_processes_step_in_no_backward(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "run.sh").write_text("torchrun --nproc_per_node 8 grpo.py\n")
    assert found(capsys, "MEM501", "MEM504") == {"grpo.py:3 MEM501"}


def test_a_configuration_of_deepspeed_reaches_a_parser(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = PARSED.replace("SFT", "GRPO").replace("args=args", "reward_funcs=[f], args=args")
    (here / "parsed.py").write_text(text)
    (here / "run.sh").write_text(
        "deepspeed --num_gpus 8 parsed.py --deepspeed ds.json --model_name_or_path Qwen/Qwen2.5-7B"
    )
    assert found(capsys, "MEM602") == {"parsed.py:2 MEM602"}


def peak(capsys: pytest.CaptureFixture[str], script: str = "grpo.py") -> float:
    run(["estimate", "--target", "newest", "--output-format", "json", script])
    return float(json.loads(capsys.readouterr().out)["allocated"]["high"])


def test_prices_shard(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = peak(capsys)
    for text in ("--config_file z3.yaml", "--use_deepspeed --zero_stage 3 --num_processes 16"):
        (here / "run.sh").write_text(f"accelerate launch {text} grpo.py\n")
        assert peak(capsys) < whole / 3


def test_a_number_of_gpus_that_nobody_names_is_assumed(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "run.sh").write_text("accelerate launch --use_fsdp --num_processes $N grpo.py\n")
    run(["estimate", "--target", "newest", "grpo.py"])
    assert "--assume world_size=1" in capsys.readouterr().out


def test_checkpointing_twice_is_refused(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "plain.py").write_text(SFT.replace("OPTIONS", ", activation_checkpointing=True"))
    (here / "default.py").write_text(SFT.replace("OPTIONS", ""))
    (here / "off.py").write_text(SFT.replace("OPTIONS", ", activation_checkpointing=False"))
    (here / "other.py").write_text(SFT.replace("OPTIONS", ", activation_checkpointing=True"))
    (here / "parsed.py").write_text(PARSED)
    (here / "on.yaml").write_text(f"{RECIPE}activation_checkpointing: true\n")
    (here / "default.yaml").write_text(RECIPE)
    launch = "accelerate launch --config_file fsdp.yaml"
    (here / "run.sh").write_text(
        f"{launch} plain.py\n{launch} default.py\n{launch} off.py\n"
        f"{launch} parsed.py --model_name_or_path a/b --activation_checkpointing True\n"
        f"{launch} parsed.py --config on.yaml\n"
        "trl sft --config default.yaml --accelerate_config fsdp.yaml\n"
        "accelerate launch --use_fsdp --fsdp_activation_checkpointing true other.py\n"
    )
    expected = {
        "plain.py:2 MEM903",
        "default.py:2 MEM903",
        "other.py:2 MEM903",
        "on.yaml:5 MEM903",
        "default.yaml:1 MEM903",
        "run.sh:4 MEM903",
    }
    assert found(capsys, "MEM301", "MEM903") == expected
    run(["fix", "--no-cache", "--target", "newest", "--select", "MEM903", "."])
    capsys.readouterr()
    assert found(capsys, "MEM301", "MEM903") == set()
    assert "--activation_checkpointing False" in (here / "run.sh").read_text()


def test_an_older_trainer_refuses_nothing(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "plain.py").write_text(SFT.replace("OPTIONS", ", gradient_checkpointing=True"))
    (here / "run.sh").write_text("accelerate launch --config_file fsdp.yaml plain.py\n")
    assert found(capsys, "MEM903", versions="trl=0.8,transformers=4.33") == set()
    assert found(capsys, "MEM903", versions="trl=0.15,transformers=4.48") == {"plain.py:2 MEM903"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("accelerate launch --config_file no.yaml train.py", True),
        ("accelerate launch --mixed_precision no train.py", True),
        ("accelerate launch --mixed_precision bf16 train.py", False),
        ("accelerate launch --config_file z3.yaml train.py", False),
        ("accelerate launch --config_file $C train.py", False),
        ("accelerate launch --mixed_precision no train.py\naccelerate launch train.py", False),
        ("accelerate launch train.py", False),  # the user's own configuration decides
    ],
)
def test_mixed_precision_of_a_plain_accelerator(
    here: Path, capsys: pytest.CaptureFixture[str], text: str, expected: bool
) -> None:
    (here / "train.py").write_text(LOOP.replace("PRECISION", ""))
    (here / "run.sh").write_text(f"{text}\n")
    assert bool(found(capsys, "MEM402")) is expected
    (here / "train.py").write_text(LOOP.replace("PRECISION", 'mixed_precision="bf16"'))
    assert not found(capsys, "MEM402")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("accelerate launch --config_file no.yaml train.py", True),
        ("python train.py", True),
        ("accelerate launch --mixed_precision bf16 train.py", False),
        ("accelerate launch --mixed_precision $P train.py", False),
    ],
)
def test_mixed_precision_of_a_trainer(
    here: Path, capsys: pytest.CaptureFixture[str], text: str, expected: bool
) -> None:
    (here / "train.py").write_text(SFT.replace("OPTIONS", ", bf16=False"))
    (here / "run.sh").write_text(f"{text}\n")
    assert bool(found(capsys, "MEM402")) is expected


PARALLEL = """\
compute_environment: LOCAL_MACHINE
distributed_type: FSDP
fsdp_config:
  fsdp_version: 2
parallelism_config:
  parallelism_config_cp_size: CP
  parallelism_config_tp_size: 1
mixed_precision: bf16
num_machines: 1
num_processes: 8
"""


@pytest.mark.parametrize("flag", [False, True], ids=["file", "flag"])
def test_sequences_that_accelerate_divides_are_shorter_on_each_gpu(
    here: Path, capsys: pytest.CaptureFixture[str], flag: bool
) -> None:
    (here / "fit.py").write_text(
        "from transformers import AutoModelForCausalLM, Trainer, TrainingArguments\n"
        'net = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", dtype="bfloat16")\n'
        'args = TrainingArguments("out", bf16=True, per_device_train_batch_size=1)\n'
        "Trainer(net, args, train_dataset=rows).train()\n"
    )
    more = "--use_parallelism_config --parallelism_config_cp_size 4 " if flag else ""
    (here / "run.sh").write_text(f"accelerate launch --config_file a.yaml {more}fit.py\n")
    (here / "a.yaml").write_text(PARALLEL.replace("CP", "1" if flag else "4"))
    divided = peak(capsys, "fit.py")
    (here / "run.sh").write_text("accelerate launch --config_file a.yaml fit.py\n")
    (here / "a.yaml").write_text(PARALLEL.replace("CP", "1"))
    assert divided < 0.75 * peak(capsys, "fit.py")


DTYPE = "--model_name_or_path a/b --torch_dtype bfloat16 --output_dir out"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("run.sh", f"accelerate launch sft.py {DTYPE}\n"),
        ("run.sh", f'A=(\n  {DTYPE}  # weights\n)\ntorchrun sft.py "${{A[@]}}"\n'),
        ("Makefile", f"D = bfloat16\nall:\n\tpython sft.py {DTYPE.replace(' bf', ' $(D) # bf')}\n"),
        ("Dockerfile", f"FROM a\nCMD {json.dumps(['python', 'sft.py', *DTYPE.split()])}\n"),
    ],
)
def test_an_old_name_of_what_a_parser_fills_beside_the_trainer_is_mended_in_the_command(
    here: Path, capsys: pytest.CaptureFixture[str], name: str, text: str
) -> None:
    (here / "sft.py").write_text(PARSED)
    (here / name).write_text(text)
    run(["fix", "--no-cache", "--target", "newest", "--select", "MEM901", name])
    assert (here / name).read_text() == text.replace("--torch_dtype", "--dtype")


LEFT_OVER = PARSED.replace("model_args =", "model_args, rest =").replace(
    "_config()", "_config(return_remaining_strings=True)"
)
OWN = """\
from dataclasses import dataclass
from trl import SFTConfig, SFTTrainer, TrlParser

@dataclass
class Names:
    model_name_or_path: str = ""
    torch_dtype: str = ""

args, names = TrlParser((SFTConfig, Names)).parse_args_and_config()
SFTTrainer(model=names.model_name_or_path, args=args, train_dataset=d).train()
"""


@pytest.mark.parametrize("script", [LEFT_OVER, OWN])
def test_an_option_that_the_script_may_take_itself_is_left(
    here: Path, capsys: pytest.CaptureFixture[str], script: str
) -> None:
    (here / "sft.py").write_text(script)
    (here / "run.sh").write_text(f"accelerate launch sft.py {DTYPE}\n")
    assert found(capsys, "MEM901") == set()
