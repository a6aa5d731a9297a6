"""One answer for all rules: where autograd is off, and who computes the loss."""

from __future__ import annotations

import pytest

from memlint.api.lookup import Api
from memlint.api.target_versions import newest
from memlint.rule.registry import load
from memlint.run.engine import check_source
from memlint.source import Source

HEAD = """\
import torch
import torch.nn.functional as F
from torch import inference_mode, set_grad_enabled
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
"""
FORWARD = """\
logits = model(ids).logits[:, :-1]
logp = F.log_softmax(logits, dim=-1).gather(-1, ids[:, 1:].unsqueeze(-1))
"""
LOSS = "loss = model(ids, labels=ids).loss\nloss.backward()\n"


def codes(text: str, *rules: str) -> list[str]:
    return [one.code for one in check_source(Source("a.py", text), load(rules), Api(newest()))]


def indented(text: str) -> str:
    return "".join(f"    {line}\n" for line in text.splitlines())


@pytest.mark.parametrize(
    "context",
    [
        "torch.no_grad()",
        "torch.inference_mode()",
        "inference_mode(mode=True)",
        "torch.set_grad_enabled(False)",
        "torch.set_grad_enabled(mode=False)",
        "set_grad_enabled(False)",
        "torch.autograd.set_grad_enabled(False)",
        "torch.no_grad(), torch.autocast('cuda')",
    ],
)
def test_no_backward_keeps_what_runs_without_gradients(context: str) -> None:
    assert codes(f"{HEAD}with {context}:\n{indented(FORWARD)}{LOSS}", "MEM204") == []


@pytest.mark.parametrize(
    "context",
    [
        "torch.set_grad_enabled(True)",
        "torch.set_grad_enabled(phase == 'train')",
        "torch.inference_mode(False)",
        "torch.no_grad(), torch.enable_grad()",
        "torch.autocast('cuda')",
    ],
)
def test_backward_may_keep_what_runs_elsewhere(context: str) -> None:
    assert codes(f"{HEAD}with {context}:\n{indented(FORWARD)}{LOSS}", "MEM204") == ["MEM204"]


@pytest.mark.parametrize(
    "text",
    [
        f"torch.set_grad_enabled(False)\n{FORWARD}torch.set_grad_enabled(True)\n{LOSS}",
        f"@torch.set_grad_enabled(False)\ndef score(ids):\n{indented(FORWARD)}score(ids)\n{LOSS}",
        f"@torch.no_grad\ndef score(ids):\n{indented(FORWARD)}score(ids)\n{LOSS}",
        f"def score(ids):\n{indented(FORWARD)}with inference_mode():\n    score(ids)\n{LOSS}",
        f"{LOSS}quit()\nwith torch.set_grad_enabled(False):\n{indented(FORWARD)}",
        f"class M(LightningModule):\n    def validation_step(self, ids):\n"
        f"{indented(indented(FORWARD))}{LOSS}",
    ],
)
def test_every_form_of_turning_gradients_off_counts(text: str) -> None:
    assert codes(HEAD + text, "MEM204") == []


def test_a_decorator_turns_off_its_function_alone() -> None:
    text = f"{HEAD}@torch.set_grad_enabled(False)\ndef score(ids): ...\n{FORWARD}{LOSS}"
    assert codes(text, "MEM204") == ["MEM204"]


def test_gradients_turned_off_under_a_condition_may_be_on() -> None:
    text = f"{HEAD}if flag:\n    torch.set_grad_enabled(False)\n{FORWARD}{LOSS}"
    assert codes(text, "MEM204") == ["MEM204"]


TRAINER = """\
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
{line}
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
{call}
args = TrainingArguments("out", per_device_train_batch_size=1, eval_strategy="epoch")
Trainer(model, args, train_dataset=rows, eval_dataset=rows).train()
"""


@pytest.mark.parametrize(
    ("line", "call"),
    [
        ("from memlint_runtime.losses import defer_logits", "defer_logits(model)"),
        ("import memlint_runtime.losses as losses", "losses.defer_logits(model)"),
        ("from memlint_runtime import fuse_causal_lm_loss", "fuse_causal_lm_loss(model)"),
        (
            "from kernels_of_ours import apply_liger_kernel_to_qwen3",
            "apply_liger_kernel_to_qwen3()",
        ),
        ("from kernels_of_ours import cce_patch", "model = cce_patch(model)"),
        ("from liger_kernel.transformers import AutoLigerKernelForCausalLM", ""),
    ],
)
def test_whoever_owns_the_loss_holds_no_full_logits(line: str, call: str) -> None:
    assert codes(TRAINER.format(line=line, call=call), "MEM201", "MEM207") == []
    found = codes(TRAINER.format(line="", call=""), "MEM201", "MEM207")
    assert sorted(found) == ["MEM201", "MEM207"]


@pytest.mark.parametrize(
    "use",
    [
        "Trainer(model, args, compute_metrics=accuracy).train()",
        "Trainer(model, args, preprocess_logits_for_metrics=argmax).train()",
        "trainer = Trainer(model, args)\ntrainer.train()\nout = trainer.predict(rows).predictions",
    ],
)
def test_the_fused_loss_leaves_the_results_of_evaluation(use: str) -> None:
    text = TRAINER.partition("Trainer(model")[0].format(line="", call="") + use
    (found,) = check_source(Source("a.py", text), load(["MEM201"]), Api(newest()))
    assert found.fix is not None
    assert "`fuse_causal_lm_loss(model)`" in found.fix.message
