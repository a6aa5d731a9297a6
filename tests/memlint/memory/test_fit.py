"""``--fit``: the smallest set of fixes, what is applied, what is said."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path

import pytest

from memlint.cli.main import run
from memlint.memory.fit import Fitted, candidates, fit, run_of
from memlint.memory.prices import Run, merged, with_pricing
from memlint.rule.findings import Applicability, Finding, Fix, Level
from memlint.rule.savings import Pricing, ends
from memlint.source import Span
from memlint.source.edits import SetKeyword
from tests.fit_cases import CASES, fitted

SCRIPT = """\
from datasets import load_dataset
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-1.5B", dtype="bfloat16")
args = TrainingArguments(output_dir="out", per_device_train_batch_size=8, bf16=True)
trainer = Trainer(model=model, args=args, train_dataset=load_dataset("a", split="train"))
trainer.train()
"""
COMMON = ["--gpu", "rtx4090-24gb", "--assume", "seq_len=1024", "--target", "newest"]
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
    assert "`memlint fix --fit --gpu rtx4090-24gb --assume seq_len=1024 train.py`" in shown
    assert "then fit: micro-batches up to" in shown
