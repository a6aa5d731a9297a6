"""The harness that runs scripts before and after their fixes, on two tiny scripts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.two_steps.jobs import read_jobs

_ROOT = Path(__file__).parents[1]
_SCRIPTS = {
    # Ran and runs: its safe fix (tokens padded to a fixed length) keeps the losses.
    "loop.py": """\
import torch
from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("gpt2")
model = AutoModelForCausalLM.from_pretrained("gpt2").to("cuda").train()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
total = 0.0
for row in load_dataset("x", split="train").select(range(3)):
    ids = tokenizer(row["text"], return_tensors="pt").input_ids.to("cuda")
    loss = model(input_ids=ids, labels=ids).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    total += loss
print(total)
""",
    # Does not run with the newest versions until it is fixed.
    "trainer.py": """\
from datasets import load_dataset
from transformers import (
    AutoModelForSequenceClassification, AutoTokenizer, Trainer, TrainingArguments,
)

tokenizer = AutoTokenizer.from_pretrained("bert-base-uncased")
model = AutoModelForSequenceClassification.from_pretrained("bert-base-uncased", num_labels=2)
data = load_dataset("x", split="train").map(lambda row: tokenizer(row["text"]))
args = TrainingArguments("out", evaluation_strategy="no", per_device_train_batch_size=8)
Trainer(model=model, args=args, train_dataset=data, tokenizer=tokenizer).train()
""",
    # Cannot be fixed: the loader refuses a keyword that no version takes.
    "refused.py": """\
from transformers import AutoModelForCausalLM

AutoModelForCausalLM.from_pretrained("gpt2", no_such_keyword=1)
""",
}
_LIST = """
[[script]]
repository = "owner/name"
script = "loop.py"

[[script]]
repository = "owner/name"
script = "trainer.py"
data = { "*" = "classes" }

[[script]]
repository = "owner/name"
script = "refused.py"
"""


@pytest.mark.matrix
def test_scripts_run_before_and_after_their_fixes(tmp_path: Path) -> None:
    checkout = tmp_path / "checkouts" / "owner__name"
    checkout.mkdir(parents=True)
    for name, text in _SCRIPTS.items():
        (checkout / name).write_text(text, encoding="utf-8")
    listed = tmp_path / "scripts.toml"
    listed.write_text(_LIST, encoding="utf-8")
    path = os.pathsep.join(map(str, (_ROOT, _ROOT / "rules", _ROOT / "runtime")))
    done = subprocess.run(
        [sys.executable, "-m", "tests.two_steps", str(tmp_path / "checkouts"), "--list",
         str(listed), "--cache", str(tmp_path / "cache"), "--workers", "1"],
        capture_output=True, text=True, check=False, cwd=_ROOT,
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    lines = {line.split(" ")[0]: line for line in done.stdout.splitlines() if line[:1] != " "}
    assert "before ran (3 steps), safe ran (3 steps)" in lines["owner/name/loop.py"], done.stdout
    assert "same losses" in lines["owner/name/loop.py"], done.stdout
    trainer = lines["owner/name/trainer.py"]
    assert "before FAILED (0 steps), safe ran (3 steps), all ran (3 steps)" in trainer, done.stdout
    assert "before FAILED (0 steps), safe FAILED" in lines["owner/name/refused.py"]
    assert "unexpected keyword argument 'no_such_keyword'" in done.stdout
    assert "scripts: 3" in done.stdout
    assert done.returncode == 0, done.stderr


def test_the_list_of_scripts_is_read() -> None:
    jobs = read_jobs()
    assert len(jobs) > 40
    assert len({job.repository for job in jobs}) > 20
    assert read_jobs(names=["budwing"])
