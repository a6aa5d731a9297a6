"""Messages state what the script says and what a number rests on."""

from __future__ import annotations

import pytest

from memlint.api.lookup import Api
from memlint.api.target_versions import newest
from memlint.rule.registry import load
from memlint.run.engine import check_source
from memlint.source import Source

TRAINER = """\
import argparse
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
parser = argparse.ArgumentParser()
parser.add_argument("--gradient_checkpointing", action="store_true")
flags = parser.parse_args()
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
args = TrainingArguments("out", {options})
Trainer(model, args, train_dataset=rows, eval_dataset=rows).train()
"""


def messages(options: str, code: str) -> list[str]:
    source = Source("a.py", TRAINER.format(options=options))
    return [one.message for one in check_source(source, load([code]), Api(newest()))]


def test_a_flag_that_nobody_set_is_not_quoted_as_false() -> None:
    (message,) = messages("gradient_checkpointing=flags.gradient_checkpointing", "MEM301")
    assert message.startswith("`gradient_checkpointing` is off by its argparse default")
    (message,) = messages("gradient_checkpointing=False", "MEM301")
    assert message.startswith("`gradient_checkpointing=False`: ")


def test_reentrant_checkpointing_says_what_is_lost() -> None:
    options = "gradient_checkpointing=True, gradient_checkpointing_kwargs={'use_reentrant': True}"
    (message,) = messages(options, "MEM303")
    assert "one layer's output more is held at the peak" in message


@pytest.mark.parametrize(
    ("training", "evaluation", "times"), [(1, 8, "5.7"), (4, 8, "1.4"), (6, 8, None), (8, 8, None)]
)
def test_evaluation_is_called_larger_where_its_logits_are(
    training: int, evaluation: int, times: str | None
) -> None:
    found = messages(
        f"eval_strategy='epoch', per_device_train_batch_size={training}, "
        f"per_device_eval_batch_size={evaluation}",
        "MEM207",
    )
    assert len(found) == (times is not None)
    if times is not None:
        assert f"its full logits take {times} times those of training" in found[0]


def test_the_reason_of_removed_options_names_every_error() -> None:
    (rule,) = load(["MEM901"])
    for error in ("TypeError", "ImportError", "AttributeError", "ValueError"):
        assert error in rule.page.why


LOOP = """\
import torch
from torch.nn.parallel import DistributedDataParallel
from transformers import AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-7B", dtype=torch.{dtype}).cuda()
model = DistributedDataParallel(model)
model.train()
optimizer = torch.optim.AdamW(model.parameters())
for batch in loader:
    model(**batch).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.mark.parametrize(
    ("dtype", "size"),
    [("float32", "26.1 GiB in float32"), ("bfloat16", "13.0 GiB in bfloat16")],
)
def test_temporaries_of_a_step_have_the_dtype_of_the_weights(dtype: str, size: str) -> None:
    text = LOOP.format(dtype=dtype).replace("model = DistributedDataParallel(model)\n", "")
    source = Source("a.py", text)
    (finding,) = check_source(source, load(["MEM507"]), Api(newest()))
    assert size in finding.message


def test_advice_is_a_whole_sentence() -> None:
    source = Source("a.py", LOOP.format(dtype="bfloat16"))
    (finding,) = check_source(source, load(["MEM508"]), Api(newest()))
    assert finding.fix is not None
    assert finding.fix.message.endswith(") or ZeRO")
