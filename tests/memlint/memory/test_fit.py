"""``--fit``: the smallest set of fixes, what is applied, what is said."""

from __future__ import annotations

import json
import re
from itertools import combinations
from pathlib import Path

import pytest

from memlint.cli.main import run
from memlint.memory.fit import Fitted, Measure, candidates, fit, run_of
from memlint.memory.prices import Run, merged
from memlint.memory.settings import with_pricing
from memlint.memory.trades import TRADES, Trade, trade_of
from memlint.reports import fit_report
from memlint.rule.findings import Applicability, Finding, Fix, Level
from memlint.rule.savings import Pricing, ends
from memlint.source import Span
from memlint.source.edits import SetKeyword
from tests.fit_cases import CASES, fitted

SCRIPT = """\
from datasets import load_dataset
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-1.5B", dtype="bfloat16")
args = TrainingArguments(output_dir="out", per_device_train_batch_size=1, bf16=True)
trainer = Trainer(model=model, args=args, train_dataset=load_dataset("a", split="train"))
trainer.train()
"""
COMMON = ["--gpu", "rtx4090-24gb", "--assume", "seq_len=8192", "--target", "newest"]
CALL = Span(0, 1)


def made(**settings: object) -> Run:
    values = {"model": "Qwen/Qwen2.5-1.5B", "trainer": "transformers.Trainer", **settings}
    return run_of(with_pricing(values, Pricing("rtx4090-24gb")))


LOGITS = ("loss", "no_logits")


def finding(code: str, kind: Applicability, *effect: tuple[str, object]) -> Finding:
    one = Fix(f"fix {code}", (SetKeyword(CALL, "x", "1"),), kind)
    return Finding(CALL, "message", one, Level.WASTE, code, "name", effect=effect)


def test_nothing_is_changed_where_the_run_fits() -> None:
    found = fit(made(micro_batch=1, seq_len=128, checkpointing="full"), ())
    assert found.chosen == ()
    assert found.fits
    assert found.micro_batch > 1


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_set_fits_and_no_smaller_one_of_safe_fixes_does(case: object) -> None:
    run_, found, safe = fitted(case)  # type: ignore[arg-type]
    assert found.before > found.room
    assert found.fits
    assert all(each.kind is Applicability.SAFE for each in found.chosen)
    for size in range(len(found.chosen)):
        for fewer in combinations(safe, size):
            assert ends(run_.peak(merged(each.changes for each in fewer)))[1] > found.room


def test_safe_fixes_come_before_unsafe_ones_and_those_before_the_hand() -> None:
    values = {"micro_batch": 8, "seq_len": 1024}
    unsafe = finding("MEM501", Applicability.UNSAFE, ("optimizer", "paged_adamw_8bit"))
    shorter = finding("MEM101", Applicability.UNSAFE, ("seq_len", 256))
    checkpointing = finding("MEM301", Applicability.SAFE, ("checkpointing", "full"))
    logits = finding("MEM201", Applicability.SAFE, LOGITS)
    found = fit(made(**values), [unsafe, shorter, checkpointing, logits])
    assert {code for each in found.chosen for code in each.codes} == {"MEM301", "MEM201"}
    found = fit(made(**values), [shorter, checkpointing])
    assert "seq_len" not in dict(merged(each.changes for each in found.chosen))
    assert found.tier == "leaves what is learned alone"


def test_a_smaller_batch_that_is_accumulated_comes_before_the_bus() -> None:
    lora = {"r": 16, "target_modules": ["q_proj", "v_proj"], "dtype": "float32"}
    values = {"model": "meta-llama/Llama-3.1-8B", "method": "lora", "lora": lora}
    for checkpointing in ("full", "none"):
        run_ = made(**values, micro_batch=16, seq_len=4096, loss="liger",
                    checkpointing=checkpointing)  # fmt: skip
        found = fit(run_, [finding("MEM412", Applicability.UNSAFE, ("streamed", True))])
        changes = dict(merged(each.changes for each in found.chosen))
        assert found.fits
        assert {"offload", "streamed", "method"}.isdisjoint(changes)
        assert changes["micro_batch"] * changes["gradient_accumulation"] == 16
        assert found.tier == "leaves what is learned alone"


def test_the_method_changes_last() -> None:
    small = fit(made(micro_batch=1, seq_len=512, model="Qwen/Qwen2.5-3B"), ())
    assert small.fits
    assert small.tier == "changes numerics"
    large = fit(made(micro_batch=1, seq_len=512, model="Qwen/Qwen2.5-7B"), ())
    assert large.fits
    assert large.tier == "changes the method"


def test_where_nothing_fits_the_least_is_said() -> None:
    found = fit(made(model="meta-llama/Llama-3.1-70B", seq_len=4096, micro_batch=1), ())
    assert not found.fits
    assert 0 < found.after < found.before
    assert found.micro_batch == 0


def test_settings_without_a_script_are_fitted_by_hand() -> None:
    found = fit(made(method="lora", model="Qwen/Qwen2.5-7B", micro_batch=4, seq_len=2048), ())
    assert found.fits
    assert found.applied == ()
    assert ("checkpointing", "full") in merged(each.changes for each in found.by_hand)


SAID = [
    ("accumulate", "checkpointing", "unchecked-activations"),
    ("Checkpoint", "a third more compute", "unchecked-activations"),
    ("8-bit optimizer", "stability", "fp32-optimizer-states"),
    ("LoRA", "rank", "full-fine-tune"),
    ("QLoRA", "rank", "full-fine-tune"),
]


@pytest.mark.parametrize(("change", "word", "page"), SAID)
def test_a_change_says_its_trade_and_its_page_has_it(
    change: str, word: str, page: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = candidates(made(micro_batch=8, seq_len=2048, checkpointing="none"), ())
    (measure,) = [each for each in found if change in each.message][-1:]
    assert f"(`memlint rule {page}`)" in measure.trade
    assert measure.to_json()["trade"] == measure.trade
    assert run(["rule", page]) == 0
    assert word in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("trade", TRADES, ids=lambda each: f"{each.setting}-{each.part}")
def test_pages_of_trades_are_there(trade: Trade, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["rule", trade.page]) == 0
    assert "## Sources" in capsys.readouterr().out
    assert trade_of([(trade.setting, f"some {trade.part}")]) is not None


SOURCES = {
    ("gradient_accumulation", "2"): ("accumulation comes first", "torchtune"),
    ("optimizer", "adamw_8bit"): ("may cost stability", "torchtune"),
    ("optimizer", "adafactor"): ("converges more slowly", "perf_train_gpu_one"),
    ("weights_dtype", "bfloat16"): ("rounded away", "2010.06192"),
    ("method", "lora"): ("a higher rank", "2405.09673"),
}


@pytest.mark.parametrize("change", SOURCES, ids="-".join)
def test_the_page_of_a_trade_has_a_sentence_and_a_source(
    change: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    sentence, source = SOURCES[change]
    trade = trade_of([change])
    assert trade is not None
    assert run(["rule", trade.page]) == 0
    text, _, sources = capsys.readouterr().out.partition("## Sources")
    assert sentence in " ".join(text.split())
    assert source in sources


def test_trades_are_printed_below_their_change(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run.json"
    path.write_text(json.dumps({"model": "Qwen/Qwen2.5-3B", "micro_batch": 1, "seq_len": 512}))
    run(["estimate", "--fit", "--gpu", "rtx4090-24gb", "--settings", str(path)])
    lines = capsys.readouterr().out.splitlines()
    (place,) = [index for index, line in enumerate(lines) if "8-bit" in line]
    assert "watch the loss (`memlint rule fp32-optimizer-states`)" in lines[place + 1]
    assert trade_of([("attention", "sdpa")]) is None


def test_fixes_of_one_effect_are_one_change() -> None:
    safe, unsafe = Applicability.SAFE, Applicability.UNSAFE
    both = [finding("MEM201", safe, LOGITS), finding("MEM204", unsafe, LOGITS)]
    (logits,) = [each for each in candidates(made(micro_batch=8, seq_len=1024), both) if each.codes]
    assert logits.kind is Applicability.SAFE
    assert logits.fixes == (("MEM201", "fix MEM201"),)


def test_the_largest_batch_fits_and_the_next_does_not() -> None:
    run_ = made(micro_batch=8, seq_len=1024, checkpointing="full", loss="liger")
    found: Fitted = fit(run_, ())
    peaks = [run_.peak((("micro_batch", found.micro_batch + more),)) for more in (0, 1)]
    assert ends(peaks[0])[1] <= found.room < ends(peaks[1])[1]


def test_fix_applies_the_set_and_no_more(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "train.py"
    # MEM902's own safe fix is not needed to fit.
    path.write_text(SCRIPT.replace("dtype=", "torch_dtype="))
    assert run(["estimate", "--fit", "--output-format", "json", "train.py", *COMMON]) == 0
    said = json.loads(capsys.readouterr().out)
    assert {code for each in said["fixes"] for code in each["codes"]} == {"MEM301", "MEM201"}
    run(["fix", "--fit", "train.py", *COMMON])
    capsys.readouterr()
    text = path.read_text()
    assert "activation_checkpointing=True" in text
    assert "fuse_causal_lm_loss(model)" in text
    assert "torch_dtype=" in text
    assert run(["estimate", "--output-format", "json", "train.py", *COMMON]) == 0
    after = json.loads(capsys.readouterr().out)
    assert after["allocated"]["estimate"] == pytest.approx(said["after"], rel=0.01)


def test_fit_says_what_it_needs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(SCRIPT)
    assert run(["estimate", "--fit", "train.py"]) == 2
    assert "--fit needs --gpu" in capsys.readouterr().err
    assert run(["fix", "--fit", "train.py"]) == 2
    assert "--fit needs --gpu" in capsys.readouterr().err
    run(["estimate", "--fit", "train.py", *COMMON])
    shown = capsys.readouterr().out
    assert "MEM301  safe" in shown
    assert "`memlint fix --fit --gpu rtx4090-24gb --assume seq_len=8192 train.py`" in shown
    assert "with that, micro-batches of up to" in shown


# -- the batch, in fewer rows at once --------------------------------------------------------------

PLAIN = """\
from datasets import load_dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer

model = AutoModelForCausalLM.from_pretrained("meta-llama/Llama-3.1-8B", dtype="bfloat16")
args = SFTConfig(
    output_dir="out", per_device_train_batch_size=24, gradient_accumulation_steps=2,
    max_length=3072, bf16=True, activation_checkpointing=True,
)
adapter = LoraConfig(r=16, target_modules=["q_proj", "v_proj"])
data = load_dataset("own/rows", split="train")
SFTTrainer(model, args=args, train_dataset=data, peft_config=adapter).train()
"""
KEYS = """\
model_name_or_path: meta-llama/Llama-3.1-8B
dtype: bfloat16
dataset_name: own/rows
per_device_train_batch_size: 24
gradient_accumulation_steps: 2
max_length: 3072
use_peft: true
lora_r: 16
lora_target_modules: [q_proj, v_proj]
bf16: true
activation_checkpointing: true
learning_rate: 1.0e-4
output_dir: out
"""
FLAGS = (
    "trl sft --model_name_or_path meta-llama/Llama-3.1-8B --dtype bfloat16 --use_peft --lora_r 16 "
    "--dataset_name own/rows --per_device_train_batch_size 24 --gradient_accumulation_steps 2 "
    "--max_length 3072 --bf16 true --activation_checkpointing true --learning_rate 1e-4 "
    "--output_dir out\n"
)
AXOLOTL = """\
base_model: NousResearch/Meta-Llama-3-8B
adapter: lora
lora_r: 16
lora_target_modules: [q_proj, v_proj]
datasets:
  - path: own/rows
    type: alpaca
sequence_len: 2048
micro_batch_size: 24
gradient_accumulation_steps: 2
optimizer: adamw_torch
bf16: auto
cut_cross_entropy: true
gradient_checkpointing: true
attn_implementation: flash_attention_2
learning_rate: 0.0002
num_epochs: 1
output_dir: out
"""
TORCHTUNE = """\
model:
  _component_: torchtune.models.llama3_1.lora_llama3_1_8b
  lora_attn_modules: [q_proj, v_proj]
  lora_rank: 8
tokenizer:
  _component_: torchtune.models.llama3.llama3_tokenizer
  path: /models/llama/tokenizer.model
  max_seq_len: 2048
dataset:
  _component_: torchtune.datasets.alpaca_dataset
  packed: true
optimizer:
  _component_: torch.optim.AdamW
loss:
  _component_: torchtune.modules.loss.LinearCrossEntropyLoss
batch_size: 24
gradient_accumulation_steps: 2
enable_activation_checkpointing: true
enable_activation_offloading: true
dtype: bf16
device: cuda
"""
WRITTEN = {
    "train.py": (PLAIN, r"batch_size=(\d+)", r"accumulation_steps=(\d+)"),
    "sft.yaml": (KEYS, r"batch_size: (\d+)", r"accumulation_steps: (\d+)"),
    "start.sh": (FLAGS, r"batch_size (\d+)", r"accumulation_steps (\d+)"),
    "axolotl.yaml": (AXOLOTL, r"micro_batch_size: (\d+)", r"accumulation_steps: (\d+)"),
    "tune.yaml": (TORCHTUNE, r"batch_size: (\d+)", r"accumulation_steps: (\d+)"),
}
ON = ["--gpu", "rtx4090-24gb", "--target", "newest"]


@pytest.mark.parametrize("name", WRITTEN)
def test_fewer_rows_are_written_with_the_accumulation_that_keeps_the_batch(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    text, rows, steps = WRITTEN[name]
    Path("pyproject.toml").touch()
    Path(name).write_text(text)
    assert run(["estimate", "--fit", *ON, name]) == 0
    said = capsys.readouterr().out
    assert "by hand" not in said
    assert f"memlint fix --fit --gpu rtx4090-24gb {name}" in said
    run(["fix", "--fit", *ON, name])
    assert "Fixed 1 finding in 1 file" in capsys.readouterr().err
    changed = Path(name).read_text()
    fewer, more = (int(re.findall(one, changed)[0]) for one in (rows, steps))
    assert fewer < 24
    assert fewer * more == 48
    # Nothing else is touched, it fits now, and nothing is left to do.
    assert len(changed.split("\n")) == len(text.split("\n"))
    assert run(["estimate", *ON, name]) == 0
    run(["fix", "--fit", *ON, name])
    assert Path(name).read_text() == changed


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("train.py", PLAIN.replace("bf16=True", 'bf16=True, deepspeed="zero.json"')),
        ("axolotl.yaml", AXOLOTL + "deepspeed: zero.json\n"),
    ],
)
def test_a_batch_that_deepspeed_may_name_as_well_is_changed_by_hand(
    name: str, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / name).write_text(text)
    run(["estimate", "--fit", *ON, str(tmp_path / name)])
    said = capsys.readouterr().out
    assert re.search(r"- +by hand +Use micro-batches of \d+ and accumulate \d+", said)
    run(["fix", "--fit", *ON, str(tmp_path / name)])
    assert (tmp_path / name).read_text() == text


def test_what_fits_is_not_asked_of_a_check_and_leaves_its_results_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("pyproject.toml").touch()
    Path("train.py").write_text(PLAIN)
    checked = ["check", "--output-format", "json", "--select", "ALL", *ON, "train.py"]
    run([*checked, "--no-cache"])
    before = json.loads(capsys.readouterr().out)
    assert not any(each["code"] == "FIT" for each in before)
    run(["fix", "--fit", "--select", "ALL", "--diff", *ON, "train.py"])
    assert "+    output_dir" in capsys.readouterr().out
    run(checked)
    assert json.loads(capsys.readouterr().out) == before


def test_groups_of_completions_are_not_cut() -> None:
    online = {"trainer": "trl.GRPOTrainer", "micro_batch": 16, "prompt_len": 512}
    batch = (("micro_batch", 4), ("gradient_accumulation", 4))
    found = candidates(made(**online), [finding("FIT", Applicability.SAFE, *batch)])
    assert not any("micro_batch" in dict(each.changes) for each in found)


@pytest.mark.parametrize(
    ("before", "said"),
    [
        (9, "peak 9.0 GiB: fits the 80.0 GiB of h100 as it is; with 1 change (leaves what"),
        (79, "peak 79.0 GiB (up to 8"),
        (90, "peak 90.0 GiB, more than the 80.0 GiB of h100; with 1 change"),
    ],
)
def test_what_fits_is_not_called_larger_than_the_gpu(before: int, said: str) -> None:
    measure = Measure("Share prompts", (("loss", "chunked"),), Applicability.SAFE)
    one = Fitted((measure,), before << 30, 8 << 30, 80 << 30, "h100", 4, 1024)
    first = next(fit_report.lines(one, None))
    assert first.startswith(said)
    assert ("more than" in first) is (before > 70)
