"""Scripts that train nothing: what rules report of training is not their fault."""

from __future__ import annotations

import pytest

from memlint.api.lookup import Api
from memlint.api.target_versions import newest, parse_target
from memlint.rule.registry import known_rules, load
from memlint.run.engine import check_source
from memlint.source import Source

RULES = load(rule.code for rule in known_rules() if rule.code < "MEM9")
PLAIN = """\
from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer, TrainingArguments

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", dtype="float32")
rows = dataset.map(lambda row: tokenizer(row["text"], padding="max_length"))
args = TrainingArguments("out")
"""


def codes(text: str, target: str = "") -> list[str]:
    api = Api(parse_target(target) if target else newest())
    return [one.code for one in check_source(Source("a.py", text), RULES, api)]


@pytest.mark.parametrize(
    "use",
    [
        "trainer = Trainer(model, args, eval_dataset=rows)\nprint(trainer.evaluate())\n",
        "trainer = Trainer(model=model, args=args)\nlogits = trainer.predict(rows).predictions\n",
        "Trainer(model, args).evaluate(rows)\n",
        "def test(model):\n    trainer = Trainer(model, args)\n    return trainer.evaluate(rows)\n"
        "test(model)\n",
        "trainer = Trainer(model, args, eval_dataset=rows)\nmetrics = trainer.evaluate()\n"
        'trainer.log_metrics("eval", metrics)\ntrainer.save_metrics("eval", metrics)\n',
    ],
)
def test_a_trainer_that_only_evaluates_is_silent(use: str) -> None:
    assert codes(PLAIN + use) == []


@pytest.mark.parametrize(
    "use",
    [
        "trainer = Trainer(model, args, train_dataset=rows)\n",
        "trainer = Trainer(model, args)\ntrainer.evaluate()\ntrainer.train()\n",
        "trainer = Trainer(model, args)\nif flag:\n    trainer.train()\ntrainer.evaluate()\n",
        # Whoever gets it may train it.
        "trainer = Trainer(model, args)\ntrainer.evaluate()\nlaunch(trainer)\n",
        "trainer = Trainer(model, args)\ntrainer.evaluate()\ntrainer.hyperparameter_search()\n",
        "def build():\n    job = Trainer(model, args)\n    job.evaluate()\n    return job\n"
        "job = build()\njob.train()\n",
        "class Job:\n    def __init__(self):\n        self.trainer = Trainer(model, args)\n"
        "    def test(self):\n        self.trainer.evaluate()\n"
        "    def fit(self):\n        self.trainer.train()\n",
    ],
)
def test_what_may_train_is_reported(use: str) -> None:
    assert "MEM301" in codes(PLAIN + use)


def test_generation_alone_is_silent() -> None:
    assert codes(PLAIN + "model.generate(**tokenizer('x', return_tensors='pt'))\n") == []


def test_a_trl_trainer_that_only_evaluates_is_silent() -> None:
    text = (
        "from trl import SFTConfig, SFTTrainer\n"
        'args = SFTConfig("out", max_length=None, gradient_checkpointing=False)\n'
        'SFTTrainer("Qwen/Qwen3-0.6B", args=args, eval_dataset=rows).evaluate()\n'
    )
    assert codes(text) == []
    assert codes(text.replace("evaluate", "train")) != []


def test_nothing_is_reported_of_trainers_that_the_target_lacks() -> None:
    text = (
        "from trl import GRPOConfig, GRPOTrainer\n"
        'args = GRPOConfig("out", deepspeed="zero3.json", ds3_gather_for_generation=True)\n'
        'GRPOTrainer("Qwen/Qwen3-0.6B", reward_funcs=reward, args=args).train()\n'
    )
    assert codes(text, "trl=0.12") == []
    assert "MEM602" in codes(text, "trl=0.20")


def test_offloading_that_the_class_lacks_conflicts_with_nothing() -> None:
    text = (
        "from trl import SFTConfig, SFTTrainer\n"
        'args = SFTConfig("out", activation_offloading=True, use_liger_kernel=True)\n'
        'SFTTrainer("Qwen/Qwen3-0.6B", args=args, train_dataset=rows).train()\n'
    )
    assert "MEM206" not in codes(text, "trl=0.16")
    assert "MEM206" in codes(text, "trl=0.19")
