"""Prices of findings: what they are computed from, where they stay away, how they are shown."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from memlint.cli.main import run
from memlint.memory import estimate, recording
from memlint.memory.prices import check_pricing, merged, price, read_run
from memlint.memory.settings import SettingsError
from memlint.memory.tape import Tape
from memlint.memory.usual_prices import price_as_usual, with_unit_prices
from memlint.rule import Rule
from memlint.rule.findings import Finding, Level
from memlint.rule.kit import advise, fix
from memlint.rule.savings import Pricing, Saving
from memlint.run.engine import _of_rule
from memlint.run.pricing import _rank
from memlint.source import Span
from memlint.source.edits import SetKeyword

GIB = 2**30
SCRIPT = """\
from datasets import load_dataset
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-7B", dtype="bfloat16")
args = TrainingArguments(output_dir="out", per_device_train_batch_size=4, bf16=True)
trainer = Trainer(model=model, args=args, train_dataset=load_dataset("a", split="train"))
trainer.train()
"""
RUN = {
    "model": "Qwen/Qwen2.5-7B",
    "trainer": "transformers.Trainer",
    "micro_batch": 4,
    "seq_len": 2048,
    "weights_dtype": "bfloat16",
}


EFFECTS = {"MEM301": (("checkpointing", "full"),), "MEM201": (("loss", "no_logits"),)}


def finding(code: str, level: Level = Level.WASTE, **effect: object) -> Finding:
    changes = tuple(effect.items()) or EFFECTS.get(code, ())
    return Finding(Span(0, 1), "message", None, level, code, "name", effect=changes)


def written(folder: Path, text: str, name: str = "train.py") -> str:
    path = folder / name
    path.write_text(text)
    return str(path)


def checked(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    run(["check", "--no-cache", "--output-format", "json", *arguments])
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return found


def test_a_price_is_the_difference_of_two_runs() -> None:
    made = read_run(RUN, Pricing())
    assert made is not None
    (priced,), footprint = price(RUN, [finding("MEM301")], Pricing())
    assert priced.saving is not None
    assert footprint is not None
    exact = made.peak() - made.peak((("checkpointing", "full"),))
    assert priced.saving.low <= exact <= priced.saving.high < 1.2 * priced.saving.low
    assert priced.saving.phase == footprint.phase


def test_an_assumed_length_makes_the_peak_wide_and_is_stated_with_a_saving() -> None:
    known = price(RUN, [finding("MEM301")], Pricing())
    open_ = {key: value for key, value in RUN.items() if key != "seq_len"}
    wide = price(open_, [finding("MEM301")], Pricing())
    settled = price(open_, [finding("MEM301")], Pricing(assumptions=("seq_len=2048",)))
    assert wide.footprint is not None
    assert wide.footprint.assumed == ("seq_len=2048",)
    saving = wide.findings[0].saving
    assert saving is not None
    assert wide.footprint.high > 2 * wide.footprint.low
    assert saving.at == "at 4 rows of 2,048 tokens (assumed)"
    assert saving._replace(at="") == known.findings[0].saving
    assert settled.findings[0].saving == known.findings[0].saving


def test_a_finding_has_the_price_of_what_its_fix_or_its_rule_says() -> None:
    edit = SetKeyword(Span(0, 1), "x", "1")
    by_fix = fix("Set it", (edit,), effect={"optimizer": "paged_adamw_8bit"})
    by_rule = advise("Train adapters")
    rule = Rule("summary", effect={"method": "lora"}, code="MEM999")
    found = [_of_rule(rule, Finding(Span(0, 1), "message", one)) for one in (by_fix, by_rule)]
    first, second = (price(RUN, [each], Pricing()).findings[0].saving for each in found)
    assert first is not None
    assert second is not None
    assert second.low > first.high > 10 * GIB


@pytest.mark.parametrize("codes", [("MEM201", "MEM301"), ("MEM301", "MEM501", "MEM201", "MEM305")])
def test_savings_add_up_to_the_drop_that_is_announced(codes: tuple[str, ...]) -> None:
    effects = {"MEM501": {"optimizer": "adamw_8bit"}, "MEM305": {"offload": "activations"}}
    found = [finding(code, **effects.get(code, {})) for code in codes]
    priced, footprint = price(RUN, found, Pricing())
    assert footprint is not None
    assert footprint.every is not None
    savings = [each.saving for each in priced if each.saving is not None and each.saving.of_peak]
    drop = footprint.peak - footprint.every
    assert sum(each.low for each in savings) <= drop <= sum(each.high for each in savings)
    assert sum(each.high for each in savings) < 1.15 * drop


def test_a_second_finding_of_one_effect_saves_nothing_more() -> None:
    priced, _ = price(RUN, [finding("MEM201"), finding("MEM204", loss="no_logits")], Pricing())
    assert [each.saving is None for each in priced] == [False, True]


def test_a_hint_that_raises_the_peak_is_none() -> None:
    lean = {**RUN, "checkpointing": "full", "method": "lora", "micro_batch": 1, "loss": "liger"}
    worse = finding("MEM305", Level.HINT, checkpointing="none")
    assert price(lean, [worse], Pricing()).findings == []
    assert price(lean, [worse._replace(level=Level.WASTE)], Pricing()).findings != []


def test_evaluations_and_engines_beside_have_prices() -> None:
    evaluated = {**RUN, "evaluation": True, "eval_batch": 64, "checkpointing": "full",
                 "notes": {"eval_rows": "compute_metrics keeps all logits"}}  # fmt: skip
    kept = price(evaluated, [finding("MEM205", eval_rows=0)], Pricing()).findings[0].saving
    smaller = price(evaluated, [finding("MEM207", eval_batch="micro_batch")], Pricing())
    assert kept is not None
    assert kept.phase == "evaluation"
    assert smaller.findings[0].saving is not None
    engine = {"vllm": True, "vllm_gpu_memory_utilization": 0.3}
    sampled = {**RUN, "trainer": "trl.GRPOTrainer", "completion_len": 256, "prompt_len": 256,
               "generation": engine}  # fmt: skip
    awake = finding("MEM604", vllm_sleep=True)
    saving = price(sampled, [awake], Pricing("h100-80gb")).findings[0].saving
    assert saving is not None
    assert saving.of_peak


def test_a_price_that_prompts_of_unknown_length_make_wide_is_stated() -> None:
    run = {**RUN, "trainer": "trl.GRPOTrainer", "completion_len": 256, "checkpointing": "none"}
    del run["seq_len"]
    (found,), footprint = price(run, [finding("MEM301")], Pricing())
    (known,), _ = price({**run, "prompt_len": 512}, [finding("MEM301")], Pricing())
    assert footprint is not None
    assert footprint.assumed == ("prompt_len=512",)
    assert found.saving is not None
    assert known.saving is not None
    assert (found.saving.low, found.saving.high) == (known.saving.low, known.saving.high)
    assert found.saving.at == "at 4 rows of 768 tokens (assumed)"


def test_what_saves_nothing_or_is_a_guess_has_no_price() -> None:
    open_ = {key: value for key, value in RUN.items() if key != "seq_len"}
    on = {**RUN, "checkpointing": "full"}
    assert price(on, [finding("MEM301")], Pricing()).findings[0].saving is None
    assert price(RUN, [finding("MEM103")], Pricing()).findings[0].saving is None
    unbounded = price(open_, [finding("MEM101", seq_len=64)], Pricing()).findings[0].saving
    assert unbounded is not None
    assert unbounded.at == "for rows of 128 tokens, cut to 64"
    assert price(RUN, [finding("MEM101", seq_len=64)], Pricing()).findings[0].saving is not None


def test_an_unknown_model_leaves_findings_as_they_are() -> None:
    found = [finding("MEM301")]
    run = {**RUN, "model": "somebody/secret"}
    assert price(run, found, Pricing()) is None
    assert price_as_usual(run, found, Pricing()) == (found, None)


def test_neither_rows_nor_lengths_known_is_a_price_at_what_is_usual_and_no_peak() -> None:
    open_ = {key: value for key, value in RUN.items() if key not in ("seq_len", "micro_batch")}
    found = [finding("MEM301"), finding("MEM101", seq_len=64)]
    (priced, guess), footprint = price(open_, found, Pricing())
    assert footprint is None
    assert guess.saving is not None
    assert guess.saving.at == "for rows of 128 tokens, cut to 64"
    saving = priced.saving
    assert saving is not None
    assert saving.at == "at 8 rows of 2,048 tokens (assumed)"
    known = price(RUN, [finding("MEM301")], Pricing(assumptions=("micro_batch=8",))).findings[0]
    assert known.saving is not None
    assert (saving.low, saving.high) == (known.saving.low, known.saving.high)
    assert price(open_, found, Pricing(assumptions=("micro_batch=2",))).footprint is not None


PADDED = {**RUN, "method": "lora", "fixed_length": True, "micro_batch": 4, "seq_len": 1024}


@pytest.mark.parametrize(
    ("model", "usual"),
    [
        (None, "Llama-3.1-8B"),
        ("./out/tuned-3B-v2", "Llama-3.2-3B"),
        ("lab/net-72b", "Llama-3.1-70B"),
        ("lab/net-160M", "Qwen3-0.6B"),
    ],
)
def test_a_language_model_that_no_table_has_is_priced_as_a_usual_one(
    model: str | None, usual: str
) -> None:
    values = {**RUN, "model": model, "head": "lm"}
    values = {key: value for key, value in values.items() if value is not None}
    findings = [finding("MEM301"), finding("MEM201", Level.HINT)]
    (priced, hint), footprint = price_as_usual(values, findings, Pricing())
    assert priced.saving is not None
    assert priced.saving.at == f"for a {usual} at 4 rows of 2,048 tokens"
    owner = "Qwen" if usual.startswith("Qwen") else "meta-llama"
    named = read_run({**RUN, "model": f"{owner}/{usual}"}, Pricing())
    assert named is not None
    exact = named.peak() - named.peak((("checkpointing", "full"),))
    assert priced.saving.low <= exact <= priced.saving.high
    assert (hint.saving, footprint) == (None, None)


def test_what_may_be_no_language_model_has_no_price() -> None:
    values = {key: value for key, value in RUN.items() if key != "model"}
    for head in ({}, {"head": "classes"}):
        found = price_as_usual({**values, **head}, [finding("MEM301")], Pricing())[0]
        assert found[0].saving is None


def test_what_nobody_knows_the_run_of_is_priced_by_a_unit() -> None:
    by_tokens, logits, by_weights, hint = with_unit_prices(
        [
            *(finding("MEM301"), finding("MEM201")),
            *(finding("MEM506", bucket_copies=False), finding("MEM301", Level.HINT)),
        ]
    )
    assert logits.saving is not None
    assert by_tokens.saving is not None
    assert by_tokens.saving.at == "for 4,096 tokens of a Llama-3.1-8B"
    run = {"model": "meta-llama/Llama-3.1-8B", "trainer": "loop", "micro_batch": 1}
    run |= {"seq_len": 4096, "optimizer": "sgd", "gradient_accumulation": 2}
    run |= {"method": "full", "loss": "full_logits", "checkpointing": "none"}
    named = read_run(run, Pricing())
    assert named is not None
    exact = named.peak() - named.peak((("checkpointing", "full"),))
    assert by_tokens.saving.low <= exact <= by_tokens.saving.high
    assert by_weights.saving is not None
    assert (by_weights.saving.low, by_weights.saving.high) == (4 * 10**9, 4 * 10**9)
    assert by_weights.saving.at == "for each billion weights in float32"
    assert hint.saving is None


def test_an_assumed_model_prices_a_script_that_names_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = SCRIPT.replace('"Qwen/Qwen2.5-7B"', "input()")
    path = written(tmp_path, text)
    at = {each["saving"]["at"] for each in checked(capsys, path) if each["saving"]}
    assert at
    assert all("for a Llama-3.1-8B at" in each for each in at)
    found = checked(capsys, path, "--assume", "model=Qwen/Qwen2.5-7B")
    assert any(each["saving"] for each in found)
    assert not any("Llama" in each["saving"]["at"] for each in found if each["saving"])
    found = checked(capsys, path, "--assume", "model=acme/rocket-70b")
    assert any("for a Llama-3.1-70B at" in each["saving"]["at"] for each in found if each["saving"])
    # A folder of ModelScope's cache: half a billion.
    found = checked(capsys, path, "--assume", "model=models/rocket2___5-0___5B")
    assert any("for a Qwen3-0.6B at" in each["saving"]["at"] for each in found if each["saving"])


def test_padding_is_priced_in_a_batch_of_usual_lengths() -> None:
    # The longest of 1,000 rows is 7.49 times their mean, the longest of 4 is 2.08 times.
    mean, longest = 1024 / 7.485, 1024 * 2.0833 / 7.485
    fixed, batch = finding("MEM102", padding="longest"), finding("MEM104", padding="none")
    packed = finding("MEM103", packed=True)
    found, footprint = price(PADDED, [fixed, batch, packed, finding("MEM301")], Pricing())
    made = read_run(PADDED, Pricing())
    assert made is not None
    for each, before, after in ((found[0], 1024, longest), (found[1], longest, mean)):
        assert each.saving is not None
        assert each.saving.at == (
            f"in a usual batch ({round(after)} tokens a row, not {round(before):,})"
        )
        exact = [made.peak((("seq_len", round(one)),)) for one in (before, after)]
        assert each.saving.low <= exact[0] - exact[1] <= each.saving.high
        assert each.saving.high < 1.2 * each.saving.low
    assert found[2].saving == found[1].saving
    # They are in no sum.
    assert footprint == price(PADDED, [finding("MEM301")], Pricing()).footprint


def test_reentrant_checkpointing_costs_the_output_of_a_layer() -> None:
    run = {**RUN, "checkpointing": "full", "micro_batch": 4, "seq_len": 2048}
    (priced,), _ = price(run, [finding("MEM303", checkpointing="non_reentrant")], Pricing())
    assert priced.saving is not None
    assert priced.saving.phase == "backward"
    assert priced.saving.low < 4 * 2048 * 3584 * 2 < priced.saving.high


def test_padding_of_one_row_has_no_price() -> None:
    alone = {**PADDED, "micro_batch": 1, "seq_len": 16_384}
    (only,), _ = price(alone, [finding("MEM104", padding="none")], Pricing())
    assert only.saving is None
    pairs = {**alone, "trainer": "trl.DPOTrainer"}
    (two,), _ = price(pairs, [finding("MEM104", padding="none")], Pricing())
    assert two.saving is not None


def test_outputs_that_outlive_a_step_cost_their_logits() -> None:
    loop = {**RUN, "trainer": "loop", "autocast": False, "loss": "full_logits"}
    (held,), footprint = price(loop, [finding("MEM307", held_outputs=False)], Pricing())
    assert held.saving is not None
    assert held.saving.of_peak
    logits = 4 * 2048 * 152_064 * 2
    assert held.saving.low <= logits <= held.saving.high
    assert footprint is not None
    trainer = {**loop, "trainer": "transformers.Trainer"}
    assert (
        price(trainer, [finding("MEM307", held_outputs=False)], Pricing()).findings[0].saving
        is None
    )


def test_gradients_that_are_zeroed_cost_themselves() -> None:
    loop = {**RUN, "trainer": "loop", "autocast": False, "zeroed_gradients": True}
    (kept,), footprint = price(loop, [finding("MEM503", zeroed_gradients=False)], Pricing())
    assert kept.saving is not None
    assert kept.saving.of_peak
    assert footprint is not None
    assert footprint.phase in ("loss", "backward", "forward")
    assert kept.saving.high > 2 * 2**30


def test_outputs_in_float32_are_held_as_such() -> None:
    loop = {**RUN, "trainer": "loop", "loss": "full_logits"}
    held = [
        price({**loop, "float32_outputs": wide}, [finding("MEM307", held_outputs=False)], Pricing())
        .findings[0]
        .saving
        for wide in (False, True)
    ]
    assert held[0] is not None
    assert held[1] is not None
    assert held[1].high == pytest.approx(2 * held[0].high, rel=0.1)


SHARING = """
from memlint_runtime import truncate_text
from trl import DPOConfig, DPOTrainer

dataset = dataset.map(truncate_text, fn_kwargs={"tokenizer": tokenizer, "max_length": PROMPT})
args = DPOConfig("out", max_length=2048, per_device_train_batch_size=2)
DPOTrainer("Qwen/Qwen3-4B", args=args, train_dataset=dataset).train()
"""


def test_the_longer_the_prompt_that_pairs_share_the_more_it_saves(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    savings = []
    for prompt in ("1024", "1536"):
        script = written(tmp_path, SHARING.replace("PROMPT", prompt))
        (found,) = checked(capsys, "--select", "MEM605", "--target", "newest", script)
        savings.append(found["saving"]["low"])
    assert 2**28 < savings[0] < savings[1]


def test_the_runtimes_loss_copies_no_gradients() -> None:
    """Its pieces are larger than Liger's."""
    loop = {**RUN, "trainer": "loop", "weights_dtype": "float32", "autocast": True}
    fused = [
        estimate({**loop, "loss": "liger", "head_in_tiles": own}).phases for own in (False, True)
    ]
    liger, own = ({one.name: one.total for one in phases}["loss"] for phases in fused)
    gradient = 4 * 152_064 * 3584
    assert liger - gradient < own < liger


def test_vllm_that_stays_awake_costs_its_share_of_the_gpu() -> None:
    values = {
        **RUN,
        "trainer": "trl.GRPOTrainer",
        "model": "Qwen/Qwen3-1.7B",
        "prompt_len": 256,
        "completion_len": 256,
        "generation": {"vllm": True, "vllm_gpu_memory_utilization": 0.25},
        "vllm_sleep": False,
    }
    awake = finding("MEM604", vllm_sleep=True)
    (priced,), _ = price(values, [awake], Pricing())
    assert priced.saving is not None
    assert priced.saving.low == 20 * GIB
    assert priced.saving.at == "on a GPU of 80 GiB (`--gpu` names yours)"
    (named,), _ = price(values, [awake], Pricing("rtx4090-24gb"))
    assert named.saving is not None
    assert named.saving.at == ""
    assert 2 * GIB < named.saving.low < 6 * GIB


TWO = """\
from datasets import load_dataset
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
data = load_dataset("a", split="train")
small = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", dtype="bfloat16")
first = TrainingArguments(output_dir="out", per_device_train_batch_size=2, bf16=True)
Trainer(model=small, args=first, train_dataset=data).train()
large = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-4B", dtype="bfloat16")
second = TrainingArguments(output_dir="out", per_device_train_batch_size=2, bf16=True)
Trainer(model=large, args=second, train_dataset=data).train()
"""


def test_each_trainer_of_a_script_has_its_own_prices(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ("--assume", "seq_len=1024", "--target", "newest")
    found = checked(capsys, written(tmp_path, TWO), *given)
    savings = {
        each["location"]["row"]: each["saving"] for each in found if each["code"] == "MEM301"
    }
    assert savings[8]["at"] == ""
    assert savings[5]["at"] == "in the run on line 6"
    assert savings[8]["low"] > savings[5]["high"]
    alone = TWO.split("large =")[0]
    (only,) = [
        each["saving"]
        for each in checked(capsys, written(tmp_path, alone), *given)
        if each["code"] == "MEM301"
    ]
    assert {**only, "at": savings[5]["at"]} == savings[5]
    # The last line is the last run's, and its sum.
    run(["check", "--no-cache", "--output-format", "concise", str(tmp_path / "train.py"), *given])
    assert "in the run on line" not in capsys.readouterr().out
    written(tmp_path, TWO)
    run(["check", "--no-cache", "--output-format", "concise", str(tmp_path / "train.py"), *given])
    (line,) = [each for each in capsys.readouterr().out.split("\n") if ": peak " in each]
    before, after = (float(one) for one in re.findall(r"(\d+\.\d) GiB", line))
    own = [
        each["saving"]
        for each in found
        if each["saving"] and each["saving"]["of_peak"] and not each["saving"]["at"]
    ]
    drop = (before - after) * GIB
    assert sum(one["low"] for one in own) - GIB / 10 <= drop
    assert drop <= sum(one["high"] for one in own) + GIB / 10


def test_names_of_labels_that_are_made_elsewhere_leave_a_price(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = """\
from transformers import AutoModelForTokenClassification, Trainer, TrainingArguments
model = AutoModelForTokenClassification.from_pretrained(
    "bert-base-cased", id2label={number: name for number, name in enumerate(names)}
)
args = TrainingArguments(output_dir="out", per_device_train_batch_size=32)
Trainer(model=model, args=args, train_dataset=data).train()
"""
    found = checked(capsys, written(tmp_path, text), "--target", "newest")
    (priced,) = [each["saving"] for each in found if each["code"] == "MEM402"]
    assert priced["low"] > 0


def test_what_another_phase_saves_is_not_said_of_the_peak() -> None:
    # Full fine-tuning of 7B with AdamW: the step is fullest, whatever the logits take.
    values = {**RUN, "micro_batch": 1, "checkpointing": "full", "optimizer": "adamw_torch"}
    (priced,), footprint = price(values, [finding("MEM201")], Pricing())
    assert footprint is not None
    assert footprint.phase == "optimizer step"
    assert priced.saving is not None
    assert (priced.saving.of_peak, priced.saving.phase) == (False, "loss")


def test_gpus_and_assumptions_are_checked() -> None:
    assert not check_pricing(Pricing("rtx4090-24gb", ("seq_len=512", "model=Qwen/Qwen2.5-7B")))
    assert "'acme/rocket' is not known" in check_pricing(Pricing("", ("model=acme/rocket",)))
    with pytest.raises(SettingsError, match="near"):
        check_pricing(Pricing("rtx409"))
    with pytest.raises(SettingsError, match="seq_len"):
        check_pricing(Pricing("", ("seq_length=3",)))
    assert merged(((("a", 1), ("b", 2)), (("a", 3),))) == (("a", 3), ("b", 2))


def test_check_prices_sorts_and_sums_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, SCRIPT)
    found = checked(capsys, path, "--assume", "seq_len=2048", "--target", "newest")
    assert [each["level"] for each in found] == sorted(
        (each["level"] for each in found), key=("waste", "hint").index
    )
    savings = [each["saving"] for each in found if each["saving"] and each["level"] == "waste"]
    assert len(savings) >= 2
    assert [each["high"] for each in savings] == sorted(
        (each["high"] for each in savings), reverse=True
    )
    assert set(savings[0]) == {"low", "high", "phase", "of_peak", "at"}
    arguments = ["check", "--no-cache", "--target", "newest", path, "--assume", "seq_len=2048"]
    run([*arguments, "--output-format", "concise"])
    plain = capsys.readouterr().out
    assert "saves " in plain
    assert "GiB while the loss is computed" in plain
    run([*arguments, "--output-format", "concise", "--gpu", "h100-80gb"])
    (line,) = [each for each in capsys.readouterr().out.splitlines() if ": peak " in each]
    assert "does not fit h100-80gb" in line
    assert re.search(
        r"peak \d+\.\d GiB while the loss is computed .*; \d+\.\d GiB with safe fixes ", line
    )
    run([*arguments[:-2], "--output-format", "concise"])
    (line,) = [each for each in capsys.readouterr().out.splitlines() if ": peak " in each]
    ends = r"\d+\.\d-\d+\.\d GiB"
    assert re.search(rf"peak {ends} while the loss is computed; {ends} with safe fixes", line)
    run([*arguments, "--output-format", "sarif"])
    (sarif,) = json.loads(capsys.readouterr().out)["runs"]
    assert any("saving" in each.get("properties", {}) for each in sarif["results"])
    assert sarif["properties"]["footprints"][0]["phase"] == "loss"


def test_without_prices_nothing_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, SCRIPT)
    assert all(each["saving"] is None for each in checked(capsys, path, "--no-prices"))


def test_the_cache_knows_what_prices_were_computed_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path, SCRIPT)

    def low(*more: str) -> int:
        run(["check", "train.py", "--output-format", "json", *more])
        found = json.loads(capsys.readouterr().out)
        return int(next(each["saving"]["low"] for each in found if each["code"] == "MEM301"))

    first = low("--assume", "seq_len=2048")
    assert low("--assume", "seq_len=1024") < first
    assert low("--assume", "seq_len=2048") == first == low("--assume", "seq_len=2048")


def test_the_configuration_names_the_gpu(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path, SCRIPT)
    settings = 'gpu = "a100-40gb"\nassume = {seq_len = 512}\n'
    written(tmp_path, settings, "memlint.toml")
    run(["check", "train.py", "--no-cache", "--output-format", "concise"])
    assert "a100-40gb" in capsys.readouterr().out
    written(tmp_path, settings + "prices = false\n", "memlint.toml")
    run(["check", "train.py", "--no-cache", "--output-format", "concise"])
    assert "saves" not in capsys.readouterr().out
    written(tmp_path, 'gpu = "rtx409"\n', "memlint.toml")
    assert run(["check", "train.py", "--no-cache"]) == 2
    assert "memlint.toml: unknown GPU" in capsys.readouterr().err


def test_hints_come_up_where_the_run_does_not_fit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saving = Saving(GIB, 2 * GIB, "loss")
    hint = finding("MEM305", level=Level.HINT)._replace(saving=saving)
    waste = finding("MEM103")
    error = finding("MEM901", level=Level.ERROR)
    assert sorted([hint, waste, error], key=lambda each: _rank(each, True)) == [error, waste, hint]
    assert sorted([hint, waste, error], key=lambda each: _rank(each, False)) == [error, hint, waste]
    costly = finding("MEM905", level=Level.ERROR)._replace(saving=Saving(9 << 30, 9 << 30, "loss"))
    for fits in (True, False):
        order = sorted([waste, costly, hint, error], key=lambda each: _rank(each, fits))
        assert order[:2] == [error, costly], "what stops the run comes before what costs memory"


FROZEN = """\
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", dtype=torch.bfloat16)
model = get_peft_model(model, LoraConfig())
SFTTrainer(model, args=SFTConfig("out"), train_dataset=dataset).train()
"""


@pytest.mark.parametrize(
    ("gpu", "shown"),
    [("rtx4090-24gb", False), ("rtx3060-12gb", True), ("rtx3050-laptop-4gb", False)],
)
def test_streaming_is_named_where_it_makes_the_run_fit(
    gpu: str, shown: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, FROZEN)
    findings = checked(capsys, path, "--gpu", gpu)
    assert any(one["code"] == "MEM412" for one in findings) is shown
    (selected,) = checked(capsys, path, "--gpu", gpu, "--select", "MEM412")
    assert selected["saving"]["low"] > 10 * GIB


def test_what_is_only_worth_it_to_fit_is_said_where_the_run_does_not_fit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of 512 tokens nothing hides the base on the bus, which is slow and better than no run."""
    short = FROZEN.replace('"out"', '"out", per_device_train_batch_size=1, max_length=512')
    path = written(tmp_path, short)
    selected = "--select", "MEM412"
    assert checked(capsys, path, *selected) == []
    assert checked(capsys, path, "--gpu", "a100-80gb", *selected) == []
    (found,) = checked(capsys, path, "--gpu", "rtx3060-12gb", *selected)
    assert found["saving"]["low"] > 10 * GIB


def test_prices_trace_nothing_and_record_what_is_the_same_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[Tape] = []
    replay = Tape.replay
    recording._layer.cache_clear()
    recording._loss.cache_clear()
    monkeypatch.setattr(Tape, "trace", lambda *each: pytest.fail("a price needs no trace"))
    monkeypatch.setattr(Tape, "allocations", lambda *each: pytest.fail("nor single tensors"))
    monkeypatch.setattr(Tape, "replay", lambda tape, out: made.append(tape) or replay(tape, out))
    known = read_run(RUN, Pricing())
    assert known is not None
    plain = known.peak()
    assert len(made) == 2  # a layer and the loss
    assert known.peak((("optimizer", "adamw_8bit"),)) < plain
    assert len(made) == 2
    assert known.peak((("micro_batch", 8),)) > plain
    assert len(made) == 4


LOOP_BESIDE = """\
import torch
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", dtype=torch.bfloat16).cuda()
args = TrainingArguments(output_dir="out", per_device_train_batch_size=2, bf16=True)
Trainer(model=model, args=args, train_dataset=data).train()
optimizer = torch.optim.AdamW(model.parameters())
for batch in torch.utils.data.DataLoader(rows, batch_size=4):
    outputs = model(**batch)
    outputs.loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def test_a_loop_beside_a_trainer_has_its_own_prices(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, LOOP_BESIDE)
    found = checked(capsys, path, "--assume", "seq_len=1024", "--target", "newest")
    # The trainer's and the loop's; the loop holds no logits once its loss makes none, but a cache.
    _, saving = [each["saving"] for each in found if each["code"] == "MEM201"]
    assert saving["at"] == "in the loop on line 7"
    logits = 4 * 1024 * 151_936
    assert 11 * logits < saving["low"] < saving["high"] < 16 * logits


def test_scripts_in_which_nothing_is_found_are_compared_by_their_peaks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is fixed is compared with what it was; no GPU that nobody named is spoken of."""
    monkeypatch.chdir(tmp_path)
    text = (
        "from transformers import AutoModelForCausalLM\nfrom trl import SFTConfig, SFTTrainer\n"
        'dtype, attention = "bfloat16", "flash_attention_2"\n'
        'model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", dtype=dtype, '
        "attn_implementation=attention)\n"
        "args = SFTConfig(max_length=1024, packing=True, per_device_train_batch_size={})\n"
        "SFTTrainer(model=model, args=args, train_dataset=data).train()\n"
    )
    Path("a.py").write_text(text.format(8))
    Path("b.py").write_text(text.format(2))
    target = ["--target", "trl=1.16.0,transformers=5.17.0,torch=2.11.0"]
    assert run(["compare", "a.py", "b.py", *target]) == 0
    out = capsys.readouterr().out
    assert re.search(r"b.py`?: peak [\d.]+ GiB -> [\d.]+ GiB, -[\d.]+ GiB\n", out), out
    assert run(["compare", "a.py", "a.py", *target]) == 0
    assert "changed: 0 findings, peak " in capsys.readouterr().out
    settings = {"model": "Qwen/Qwen3-0.6B", "trainer": "trl.SFTTrainer", "seq_len": 1024}
    Path("s.json").write_text(json.dumps({**settings, "micro_batch": 8}))
    assert run(["compare", "a.py", "s.json", *target]) == 0
    assert "peak changed: 0 findings, peak " in capsys.readouterr().out  # it is the same run
    Path("s.json").write_text(json.dumps({**settings, "micro_batch": 2}))
    assert run(["compare", "a.py", "s.json", *target]) == 0
    out = capsys.readouterr().out
    assert re.search(r"s.json: peak [\d.]+ GiB -> [\d.]+ GiB, [+-][\d.]+ GiB\n", out), out
    assert re.search(r"GiB by phase: load [\d.]+, forward [\d.]+ -> [\d.]+, loss ", out), out
