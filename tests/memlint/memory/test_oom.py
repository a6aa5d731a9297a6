"""``memlint oom``: messages of all generations, which tensor, and what a user sees."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from memlint.cli.main import run
from memlint.memory import oom_log
from memlint.memory.lifetimes import format_size
from memlint.memory.oom_candidates import KINDS, OomError, explain
from memlint.memory.oom_log import DATA, possible_sizes, read_frames, read_log
from memlint.memory.oom_tensors import table_of
from memlint.memory.settings import read_settings
from memlint.rule.remedies import _of_rules, fixes_against
from tests.memlint.memory.oom_cases import CASES, rank

OLD = (
    "RuntimeError: CUDA out of memory. Tried to allocate 2.32 GiB (GPU 3; 23.65 GiB total "
    "capacity; 20.01 GiB already allocated; 1.20 GiB free; 21.00 GiB reserved in total by PyTorch)"
)
NEW = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.32 GiB. GPU 3 has a total "
    "capacity of 23.65 GiB of which 1.20 GiB is free. Including non-PyTorch memory, this process "
    "has 22.00 GiB memory in use. Of the allocated memory 20.01 GiB is allocated by PyTorch, and "
    "3.00 GiB is reserved by PyTorch but unallocated."
)
RUN: dict[str, Any] = {
    "model": "Qwen/Qwen2.5-7B",
    "method": "full",
    "micro_batch": 2,
    "seq_len": 2048,
    "trainer": "transformers.Trainer",
    "loss": "full_logits",
    "attention": "sdpa",
    "optimizer": "adamw_torch",
}
GIB = 2**30


def kinds(text: str, settings: dict[str, Any] | None = None) -> list[str]:
    return [candidate.kind for candidate in explain(text, settings).candidates]


@pytest.mark.parametrize("text", [OLD, NEW, NEW.replace("CUDA", "HIP"), NEW.replace("city", "cty")])
def test_messages_of_every_generation_are_read(text: str) -> None:
    (message,) = read_log(text).messages
    assert message.gpu == 3
    assert message.shown == round(2.32 * GIB)
    assert message.total == round(23.65 * GIB)
    assert message.free == round(1.2 * GIB)
    assert message.allocated == round(20.01 * GIB)


def test_ranks_terminal_codes_and_broken_lines_are_read() -> None:
    text = (
        "step 3\r\n[rank0]: \x1b[31mTraceback (most recent call last):\x1b[0m\n"
        '[rank1]:   File "/x/torch/optim/adamw.py", line 7, in _multi_tensor_adamw\n'
        "[rank1]:     torch._foreach_sqrt(device_exp_avg_sqs)\n"
        '[rank0]:   File "/x/torch/nn/functional.py", line 3104, in cross_entropy\n'
        "[rank0]:     return torch._C._nn.cross_entropy_loss(\n"
        "[rank0]:            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
        "[rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.32 GiB. GPU 0\n"
        "[rank0]: has a total capacity of 23.65 GiB of which 1.20 GiB is free.\n"
        "[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 130.00 MiB. GPU 1\n"
    )
    log = read_log(text)
    assert [message.rank for message in log.messages] == [0, 1]
    assert log.world_size == 2
    assert all("foreach" not in frame for frame in log.frames)
    assert explain(text, RUN).candidates[0].kind == "log_softmax"


@pytest.mark.parametrize(
    "words",
    [
        "Tried\nto allocate 2.32",
        "Tried to\nallocate 2.32",
        "Tried to allocate\n   2.32",
        "Tried to allocate 2.32\n",
    ],
)
def test_a_message_may_be_broken_in_its_size(words: str) -> None:
    text = NEW.replace("Tried to allocate 2.32", words)
    assert text != NEW
    (message,) = read_log(text).messages
    assert (message.shown, message.total) == (round(2.32 * GIB), round(23.65 * GIB))


def test_a_long_log_is_read_around_its_first_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oom_log, "_LONG", 4000)
    monkeypatch.setattr(oom_log, "_AROUND", 1000)
    step = "{'loss': 1.25, 'learning_rate': 1e-05}\n"
    text = "seq_len=4096\n" + step * 2000 + f"{NEW}\n" + step * 1000
    log = read_log(text)
    assert [message.line for message in log.messages] == [2002]
    assert log.hints == read_log(f"seq_len=4096\n{NEW}").hints
    assert not read_log(step * 2000).messages


def test_lines_of_a_log_of_many_megabytes_keep_their_numbers() -> None:
    lines = 3_000_000
    log = read_log("batch_size_training: 3\n" + "\n" * lines + "x" * 2**22 + f"\n{NEW}\n")
    assert [message.line for message in log.messages] == [lines + 3]
    assert log.hints["micro_batch"] == 3


def test_a_message_at_the_end_of_what_is_read_first_stays_whole() -> None:
    before = "x" * (oom_log._AROUND - len(NEW) // 2 - 1)
    log = read_log(f"{before}\n{NEW}\n" + "y" * oom_log._LONG)
    assert [message.line for message in log.messages] == [2]


def test_commas_stand_for_points_or_between_thousands() -> None:
    for shown, size in (("2,432.00 MiB", 2432 * 2**20), ("2,5 GiB", 2.5 * GIB)):
        (message,) = read_log(f"CUDA out of memory. Tried to allocate {shown} (GPU 0)").messages
        assert message.shown == size


def test_logs_of_powershell_are_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "log").write_bytes(NEW.encode("utf-16"))
    (tmp_path / "run.json").write_text(json.dumps(RUN))
    assert run(["oom", str(tmp_path / "log"), "--settings", str(tmp_path / "run.json")]) == 0
    assert "2.32 GiB on GPU 3" in capsys.readouterr().out


def test_a_size_is_turned_into_what_the_allocator_rounds_to_it() -> None:
    mib = 2**20
    assert possible_sizes("2.00", "MiB") == (1, mib)
    assert possible_sizes("20.00", "MiB") == (mib + 1, 20 * mib)
    low, high = possible_sizes("502.00", "MiB")
    assert low <= 32001 * 4096 * 4 <= high == 502 * mib
    low, high = possible_sizes("2.32", "GiB")
    assert low <= 2 * 2048 * 152064 * 4 <= high
    assert high - low < 13 * mib


@pytest.mark.parametrize("size", ["512.00 bytes", "2.00 MiB", "20.00 MiB", "900.00 GiB"])
def test_any_size_is_explained(size: str) -> None:
    assert kinds(f"Tried to allocate {size}. GPU 0", RUN)
    assert kinds(f"Tried to allocate {size}. GPU 0")


def test_the_settings_alone_tell_logits_from_the_rest() -> None:
    first = kinds(NEW, RUN)[:3]
    assert set(first) <= {"logits_fp32", "log_softmax", "logits_gradient"}
    best = explain(NEW, RUN).candidates[0]
    assert best.bytes == 2 * 2048 * 152064 * 4
    assert "2 rows x 2,048 tokens" in best.arithmetic
    assert any("MEM201" in fix for fix in best.fixes)


def test_a_shorter_batch_than_the_longest_is_found() -> None:
    text = NEW.replace("2.32 GiB", "1.16 GiB")
    best = explain(text, {**RUN, "checkpointing": "full"}).candidates[0]
    assert best.kind in ("logits", "logits_fp32", "log_softmax")


def test_scores_of_eager_attention_grow_with_the_square() -> None:
    # 2 rows x 28 heads x 3001^2 x 4 bytes = 1.88 GiB
    run = {**RUN, "attention": "eager", "seq_len": 4096}
    text = NEW.replace("2.32 GiB", "1.88 GiB")
    found = {item.kind: item for item in explain(text, run).candidates}
    assert abs(found["attention_scores"].bytes / GIB - 1.88) < 0.006
    exact = NEW.replace("2.32 GiB", "3.50 GiB")
    assert kinds(exact, run)[0] == "attention_scores"


@pytest.mark.parametrize(
    ("frame", "kind"),
    [
        ("torch._foreach_sqrt(device_exp_avg_sqs)", "optimizer_temporary"),
        ('state["exp_avg"] = torch.zeros_like(p)', "optimizer_state"),
        ("logits = logits.float()", "logits_fp32"),
        ("logits = self.lm_head(hidden_states)", "logits"),
        ("torch.cat([past_key_value[0], key_states], dim=2)", "kv_cache"),
        ("preds_host = nested_concat(preds_host, logits)", "eval_logits"),
        ("self.act_fn(self.gate_proj(x)) * self.up_proj(x)", "mlp_activation"),
        ("dist.all_gather_into_tensor(flat_param)", "gathered_parameter"),
        ("delta_weight = self.get_delta_weight(active_adapter)", "merged_weight"),
        ("F.dequantize_4bit(B, quant_state)", "dequantized_weight"),
        ("self.average_tensor(self.ipg_bucket_buffer)", "gradient_bucket"),
        ("return t.to(device, dtype)", "weights"),
        ("loss.backward()", "logits_gradient"),
    ],
)
def test_a_frame_speaks_for_a_kind(frame: str, kind: str) -> None:
    evidence = read_frames([frame])
    assert max(evidence.kinds, key=lambda name: evidence.kinds[name]) == kind


def test_folders_of_the_user_are_no_evidence() -> None:
    frames = ['File "/home/me/log_softmax_state_dict/train.py", line 3, in main']
    assert read_frames(frames).kinds == {}


def test_every_kind_is_known_and_shares_add_up() -> None:
    table = table_of(read_settings({**RUN, "world_size": 8, "sharding": "zero3"}))
    assert {item.kind for item in table.tensors} <= set(KINDS)
    for text, settings in ((OLD, RUN), (NEW, None)):
        found = explain(text, settings).candidates
        assert {item.kind for item in found} <= set(KINDS)
        assert 0.9 < sum(item.share for item in found) <= 1.0001
        shares = [item.share for item in found]
        assert shares == sorted(shares, reverse=True)
        assert all(item.fixes for item in found)


def test_the_log_names_the_model_and_the_batch() -> None:
    text = (
        "model_name_or_path: /data/Qwen2.5-7B-Instruct\ncutoff_len: 2048\n"
        "per_device_train_batch_size: 2\n" + NEW
    )
    explanation = explain(text)
    assert explanation.models == ("Qwen2.5-7B-Instruct",)
    assert explanation.candidates[0].kind in ("logits_fp32", "log_softmax")
    assert explanation.candidates[0].bytes == 2 * 2048 * 152064 * 4


def test_public_cases_are_explained() -> None:
    known = [case for case in CASES if case["settings"] is not None]
    assert len(CASES) >= 25
    places = [rank(case) for case in known]
    assert sum(place <= 3 for place in places) >= 0.7 * len(known)


def test_public_cases_without_frames_and_with_a_known_batch_are_explained() -> None:
    for case in CASES:
        settings = case["settings"] or {}
        if not case["frames"] and "seq_len" in settings:
            assert rank(case, frames=False) <= 3, case["source"]


def test_less_allocated_than_the_weights_speaks_for_loading() -> None:
    # An up_proj of Llama-2-70B, alone or with its gradient, state and temporary: 448 MiB.
    run = {"model": "meta-llama/Llama-2-70b-hf", "method": "full"}
    text = NEW.replace("2.32 GiB", "448.00 MiB")
    assert kinds(text, run)[0] == "weights"
    assert kinds(text.replace("20.01 GiB is", "150.00 GiB is"), run)[0] != "weights"


def test_a_log_without_a_size_says_what_is_wanted() -> None:
    with pytest.raises(OomError, match="without a size"):
        explain("RuntimeError: CUDA error: out of memory")
    with pytest.raises(OomError, match="no message"):
        explain("everything went well")
    for size in ("0 bytes", "17179869183.99 GiB"):
        with pytest.raises(OomError, match="without a size"):
            explain(f"CUDA out of memory. Tried to allocate {size}. GPU 0")


def test_the_command_reads_a_log_with_settings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, settings = tmp_path / "train.log", tmp_path / "run.json"
    log.write_text(NEW)
    settings.write_text(json.dumps(RUN))
    assert run(["oom", str(log), "--settings", str(settings), "--output-format", "json"]) == 0
    first = json.loads(capsys.readouterr().out)["candidates"][0]
    assert set(first) == {"kind", "tensor", "bytes", "arithmetic", "phase", "share", "fixes"}
    assert run(["oom", str(log), "--settings", str(settings)]) == 0
    text = capsys.readouterr().out
    assert "could not allocate 2.32 GiB on GPU 3" in text
    assert "2 rows x 2,048 tokens" in text
    assert "MEM201" in text
    assert "expandable_segments" in text


def test_the_command_reads_a_script_and_standard_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "from transformers import AutoModelForCausalLM, Trainer, TrainingArguments\n"
        'model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-7B")\n'
        'args = TrainingArguments(output_dir="o", per_device_train_batch_size=2, bf16=True)\n'
        "Trainer(model=model, args=args, train_dataset=[]).train()\n"
    )
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(NEW.encode())))
    assert run(["oom", "-", str(script), "--output-format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)["candidates"]
    assert found[0]["kind"] in ("logits_fp32", "log_softmax")
    # What the script is found to do comes first, with its place.
    assert found[0]["fixes"][0].endswith(f"(at {script}:4)")


def test_pages_of_rules_and_the_table_help_against_each_kind() -> None:
    lines = [line for _, line in _of_rules()] + DATA["remedies"]
    named = {kind for line in lines for kind in line.partition(":")[0].split(" (")[0].split(", ")}
    assert named == set(KINDS)
    read = read_settings({**RUN, "checkpointing": "full", "micro_batch": 1})
    for kind in KINDS:
        assert fixes_against(kind, None, DATA["remedies"])
    assert all("MEM301" not in fix for fix in fixes_against("activation", read, ()))
    assert any("MEM301" in fix for fix in fixes_against("activation", None, ()))
    general = fixes_against("logits", read, DATA["remedies"])
    assert not any("per_device_train_batch_size" in fix for fix in general)


def test_bad_input_is_one_clear_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    empty = tmp_path / "empty.log"
    empty.write_text("")
    log = tmp_path / "train.log"
    log.write_text(NEW)
    assert run(["oom", str(tmp_path / "missing.log")]) != 0
    assert "cannot be read" in capsys.readouterr().err
    assert run(["oom", str(empty)]) != 0
    assert "no message" in capsys.readouterr().err
    assert run(["oom", str(log), "--assume", "seq_len=1"]) != 0
    assert "--assume needs a model" in capsys.readouterr().err
    assert run(["oom", str(log), "--assume", "model=nobody/nothing-9b"]) != 0
    assert "nobody/nothing-9b" in capsys.readouterr().err


def test_sizes_of_a_known_batch_lead_back_to_their_tensor() -> None:
    # No frames: each tensor of a full batch, shown as torch shows it, is among the first three.
    run = {**RUN, "attention": "eager"}
    places: list[int] = []
    for item in table_of(read_settings(run)).tensors:
        if item.prior < 1 or item.bytes < 48 * 2**20 or item.kind in ("eval_logits", "kv_cache"):
            continue
        if item.kind in ("state_dict_copy", "reference_model", "gathered_parameter", "other"):
            continue  # as large as the weights they copy, and rarer
        block = -(-item.bytes // 2**21) * 2**21
        found = kinds(f"CUDA out of memory. Tried to allocate {format_size(block)}. GPU 0", run)
        places.append(found.index(item.kind) + 1 if item.kind in found else 99)
    assert len(places) >= 20
    assert sum(place <= 3 for place in places) >= 0.8 * len(places)


HELD = (
    "CUDA out of memory. Tried to allocate 896.00 MiB. GPU 0 has a total capacity of 23.55 GiB of "
    "which 300.00 MiB is free. Of the allocated memory {held} GiB is allocated by PyTorch, and "
    "0 bytes is reserved by PyTorch but unallocated."
)


def test_a_run_is_told_what_lowers_its_peak_and_what_to_type(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, settings = tmp_path / "train.log", tmp_path / "run.json"
    settings.write_text(json.dumps({**RUN, "model": "Qwen/Qwen2.5-1.5B", "micro_batch": 8}))
    command = ["oom", str(log), "--settings", str(settings)]
    log.write_text(HELD.format(held="22.40"))
    assert run(command) == 0
    text = capsys.readouterr().out
    assert "by the estimate the run needs" in text
    less = [line.split()[0] for line in text.splitlines() if "GiB less: " in line]
    assert less == sorted(less, key=float, reverse=True)
    assert f"next: memlint estimate --fit --gpu rtx4090-24gb --settings {settings}" in text
    assert "(0%)" not in text
    assert "other: unknown" not in text
    assert run([*command, "--output-format", "json"]) == 0
    weighed = json.loads(capsys.readouterr().out)["estimate"]
    saved = [each["bytes"] for each in weighed["remedies"]]
    assert [f"{one / GIB:.1f}" for one in saved] == less
    assert 0 < saved[-1] < weighed["peak"]


@pytest.mark.parametrize(("length", "said"), [(64, True), (4096, False)])
def test_a_log_that_the_estimate_contradicts(
    length: int, said: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, settings = tmp_path / "train.log", tmp_path / "run.json"
    small = {**RUN, "model": "Qwen/Qwen2.5-0.5B", "method": "lora", "seq_len": length}
    settings.write_text(json.dumps({**small, "micro_batch": 16}))
    log.write_text(HELD.format(held="22.40"))
    assert run(["oom", str(log), "--settings", str(settings)]) == 0
    assert ("The log has more than that" in capsys.readouterr().out) is said


def test_the_memory_of_no_known_gpu_leaves_its_name_open(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, settings = tmp_path / "train.log", tmp_path / "run.json"
    settings.write_text(json.dumps(RUN))
    log.write_text(HELD.format(held="8.00").replace("23.55", "9.50"))
    assert run(["oom", str(log), "--settings", str(settings)]) == 0
    assert "--gpu NAME" in capsys.readouterr().out
