"""Fixes that hold back where the script reads what only a trainer was thought to read."""

from __future__ import annotations

import pytest

from tests.rules.fixing import found

TRAINER = """\
from transformers import (
    AutoModelForCausalLM, DataCollatorForSeq2Seq, EarlyStoppingCallback, Trainer, TrainerCallback,
    TrainingArguments,
)
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
args = TrainingArguments("out", per_device_train_batch_size=4, gradient_checkpointing=True{})
trainer = Trainer(model, args, train_dataset=data, data_collator=DataCollatorForSeq2Seq(tok){})
trainer.train()
"""
PLAIN = TRAINER.format("", "")
COLLATOR = """\
from transformers import AutoModelForCausalLM, DataCollatorForSeq2Seq, Trainer, TrainingArguments
class Mine(DataCollatorForSeq2Seq):
    {body}
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
args = TrainingArguments("out", per_device_train_batch_size=4)
trainer = Trainer(model, args, train_dataset=data, data_collator=Mine(tok))
trainer.train()
"""
PROBE = """\
from transformers import TrainerCallback
class Probe(TrainerCallback):
    def on_step_end(self, args, state, control, model=None, **others):
        {}
"""


def applicabilities(text: str, code: str) -> list[str]:
    return [one.fix.applicability.value for one in found(text, code) if one.fix]


@pytest.mark.parametrize(
    ("after", "applicability"),
    [
        ("trainer.save_model()\nprint(trainer.evaluate(), trainer.state.log_history)", "safe"),
        ("result = trainer.train()\nprint(result.metrics)", "safe"),
        ("def finish(t):\n    t.save_model()\nfinish(trainer)", "safe"),
        ("print(next(iter(trainer.get_train_dataloader())))", "unsafe"),
        ("print(next(iter(trainer.get_eval_dataloader())))", "unsafe"),
        ("load = trainer.get_test_dataloader\nprint(load(data))", "unsafe"),
        ("print(trainer.predict(data))", "safe"),
        ("print(trainer.data_collator([data[0]]))", "unsafe"),
        ("trainer.data_collator = other", "unsafe"),
        ("print(getattr(trainer, name))", "unsafe"),
        ("from helpers import show\nshow(trainer)", "unsafe"),
        ("kept = [trainer]", "unsafe"),
        ("def show(t):\n    print(t.get_eval_dataloader())\nshow(trainer)", "unsafe"),
        ("class A:\n    def __init__(self):\n        self.t = trainer\n"
         "    def f(self):\n        return self.t.get_eval_dataloader()\nA().f()", "unsafe"),
        ("print(model(**tok('a')).logits)", "unsafe"),
        ("from helpers import Reads\ntrainer.add_callback(Reads())", "unsafe"),
        ("trainer.add_callback(EarlyStoppingCallback())", "safe"),
    ],
)  # fmt: skip
def test_padding_stays_where_batches_are_read(after: str, applicability: str) -> None:
    assert applicabilities(f"{PLAIN}{after}\n", "MEM104") == [applicability]


@pytest.mark.parametrize(
    ("body", "applicability"),
    [
        ("pad_to_multiple_of = 8", ["display"]),
        ("def __call__(self, rows, kind=None): return super().__call__(rows)", []),
    ],
)
def test_padding_stays_where_a_collator_has_a_call_of_its_own(
    body: str, applicability: list[str]
) -> None:
    assert applicabilities(COLLATOR.format(body=body), "MEM104") == applicability


PEFT = "from peft import LoraConfig, PeftModel, get_peft_model\n"
ADAPTED = PEFT + PLAIN.replace("args =", "{}\nargs =")


@pytest.mark.parametrize(
    ("adapted", "applicability"),
    [
        ("model = get_peft_model(model, LoraConfig(r=8))", "safe"),
        ("model = get_peft_model(model, LoraConfig(r=8, lora_dropout=0.0))", "safe"),
        ("model = get_peft_model(model, LoraConfig(r=8, lora_dropout=0.1))", "unsafe"),
        ("model = get_peft_model(model, LoraConfig(r=8, lora_dropout=rate))", "unsafe"),
        ("model = PeftModel.from_pretrained(model, 'out', is_trainable=True)", "unsafe"),
    ],
)
def test_padding_stays_where_dropout_would_draw_other_numbers(
    adapted: str, applicability: str
) -> None:
    assert applicabilities(ADAPTED.format(adapted), "MEM104") == [applicability]


@pytest.mark.parametrize(("option", "safe"), [("", True), (", disable_dropout=False", False)])
def test_a_preference_trainer_turns_dropout_off(option: str, safe: bool) -> None:
    text = f"""\
from peft import LoraConfig
from trl import DPOConfig, DPOTrainer
args = DPOConfig("out"{option})
adapter = LoraConfig(lora_dropout=0.05)
trainer = DPOTrainer("Qwen/Qwen3-0.6B", args=args, train_dataset=data, peft_config=adapter)
trainer.train()
"""
    assert applicabilities(text, "MEM104") == ["safe" if safe else "unsafe"]


def test_padding_stays_where_rows_are_counted_on() -> None:
    for option in ("neftune_noise_alpha=5", 'accelerator_config={"dispatch_batches": True}'):
        assert applicabilities(TRAINER.format(f", {option}", ""), "MEM104") == ["display"]
    assert applicabilities(TRAINER.format(", neftune_noise_alpha=None", ""), "MEM104") == ["safe"]


@pytest.mark.parametrize(
    ("after", "applicability"),
    [
        ("print(model(ids).logits)", "safe"),
        ("print(model(ids, labels=ids).loss)", "safe"),
        ("print(model.generate(ids))", "safe"),
        ("model.eval()\nprint(model(ids, labels=ids).logits)", "safe"),
        ("other = AutoModelForCausalLM.from_pretrained('Qwen/Qwen3-4B')\n"
         "print(other(ids, labels=ids).logits)", "safe"),
        ("print(model(ids, labels=ids).logits)", "unsafe"),
        ("print(model(**batch)['logits'])", "unsafe"),
        ("print(model(ids, labels=ids)[1])", "unsafe"),
        ("out = model(ids, labels=ids)\nsave(out)", "unsafe"),
        ("print(getattr(model(ids, labels=ids), 'logits'))", "unsafe"),
        ("model.eval()\ntrainer.train()\nprint(model(ids, labels=ids).logits)", "unsafe"),
        ("def probe(m):\n    print(m(ids, labels=ids).logits)\nprobe(model)", "unsafe"),
        ("from helpers import probe\nprobe(model)", "unsafe"),
        ("model.lm_head.register_forward_hook(hook)", "unsafe"),
        ("print(trainer.compute_loss(model, batch, return_outputs=True)[1].logits)", "unsafe"),
    ],
)  # fmt: skip
def test_logits_stay_where_something_else_reads_them(after: str, applicability: str) -> None:
    assert applicabilities(f"{PLAIN}{after}\n", "MEM201")[0] == applicability


@pytest.mark.parametrize(
    ("body", "applicability"),
    [
        ("print(state.global_step)", "safe"),
        ("print(model(ids, labels=ids).logits)", "unsafe"),
        ("self.probe(model)\n    def probe(self, m):\n        print(m(ids, labels=ids).logits)",
         "unsafe"),
    ],
)  # fmt: skip
def test_logits_stay_where_a_callback_reads_them(body: str, applicability: str) -> None:
    text = PROBE.format(body) + TRAINER.format("", ", callbacks=[Probe()]")
    assert applicabilities(text, "MEM201")[0] == applicability
    imported = "from helpers import Probe\n" + TRAINER.format("", ", callbacks=[Probe()]")
    assert applicabilities(imported, "MEM201") == ["unsafe"]


LOOP = """\
from torch.optim import AdamW
from transformers import AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
optimizer = AdamW(model.parameters())
for batch in loader:
    out = model(input_ids=batch["ids"], labels=batch["ids"])
    {}
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.mark.parametrize(
    ("loss", "advised"),
    [
        ("loss = out.loss", "`fuse_causal_lm_loss(model, fuse_evaluation=True)` once the model"),
        ("loss = out[0]", "before the loop, with the model in training mode"),
        ("loss, logits = out.loss, out.logits", "`defer_logits(model)` once the model is loaded"),
        ("loss = my_loss(out)", "before the loop, with the model in training mode"),
        ("loss = kl(out[1])", "this loss is not"),
        ("loss = kl(out.logits)", "this loss is not"),
    ],
)
def test_a_loop_that_reads_logits_is_told_so(loss: str, advised: str) -> None:
    (message,) = [one.fix.message for one in found(LOOP.format(loss), "MEM201") if one.fix]
    assert advised in message


@pytest.mark.parametrize(
    ("wrapped", "applicability"),
    [
        ("", "safe"),
        ("model = DistributedDataParallel(model)", "safe"),
        ("model = FSDP(model)", "unsafe"),
    ],
)
def test_logits_are_deferred_unasked_only_where_the_head_keeps_its_weights(
    wrapped: str, applicability: str
) -> None:
    script = LOOP.format("loss, logits = out.loss, out.logits").replace(
        "optimizer =", f"{wrapped}\noptimizer ="
    )
    wrappers = "from torch.nn.parallel import DistributedDataParallel\n"
    wrappers += "from torch.distributed.fsdp import FullyShardedDataParallel as FSDP\n"
    (finding,) = found(wrappers + script, "MEM201")
    assert finding.fix is not None
    assert "defer_logits" in finding.fix.message
    assert finding.fix.applicability.value == applicability


METRIC = """\
import numpy as np
import transformers
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
def metric(pair):
    return {{"a": (np.argmax(pair.predictions, axis=-1) == pair.label_ids).mean()}}
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
args = TrainingArguments("out", per_device_train_batch_size=1, eval_strategy="epoch"{})
trainer = Trainer(model, args, train_dataset=data, eval_dataset=test, compute_metrics=metric{})
trainer.train()
"""


@pytest.mark.parametrize(
    ("after", "applicability"),
    [
        ("print(trainer.evaluate())", "safe"),
        ("print(trainer.predict(test).metrics)", "safe"),
        ("print(trainer.predict(test).predictions)", "unsafe"),
        ("result = trainer.predict(test)", "unsafe"),
        ("print(getattr(trainer, 'predict')(test))", "unsafe"),
        ("from helpers import report\nreport(trainer)", "unsafe"),
        ("print(metric(other))", "unsafe"),
    ],
)
def test_predictions_stay_logits_where_the_script_reads_them(
    after: str, applicability: str
) -> None:
    assert applicabilities(f"{METRIC.format('', '')}{after}\n", "MEM205") == [applicability]


@pytest.mark.parametrize(
    ("options", "given", "after", "applicability"),
    [
        ("", "", "", "safe"),
        (", load_best_model_at_end=False, lr_scheduler_type='cosine'", "", "", "safe"),
        ("", "", "metrics = trainer.evaluate()\nprint(metrics['eval_loss'])", "safe"),
        (", load_best_model_at_end=True", "", "", "unsafe"),
        (", load_best_model_at_end=best", "", "", "unsafe"),
        (", lr_scheduler_type='reduce_lr_on_plateau'", "", "", "unsafe"),
        (", save_strategy='best'", "", "", "unsafe"),
        ("", ", callbacks=[transformers.EarlyStoppingCallback(1)]", "", "unsafe"),
        ("", ", optimizers=pair", "", "unsafe"),
        ("", "", "trainer.hyperparameter_search()", "unsafe"),
        ("", "", "loss = trainer.evaluate()['eval_loss']\nif loss < 2: keep()", "unsafe"),
    ],
)
def test_evaluation_batches_stay_where_the_evaluation_loss_decides(
    options: str, given: str, after: str, applicability: str
) -> None:
    text = f"{METRIC.format(options, given)}{after}\n"
    assert applicabilities(text, "MEM207") == [applicability]


def test_evaluation_keeps_the_logits_that_the_script_reads() -> None:
    text = TRAINER.format("", ", eval_dataset=test")
    read = f"{text}model.eval()\nprint(model(ids, labels=ids).logits)\n"
    messages = [[one.fix.message for one in found(each, "MEM201")] for each in (text, read)]
    assert "fuse_evaluation=True" in messages[0][0]
    assert "fuse_evaluation" not in messages[1][0]


WEIGHTED = """\
from torch import nn
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
class Weighted(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
        labels = inputs.pop("labels")
        logits = model(**inputs).logits[:, :-1]
        loss = nn.CrossEntropyLoss({})
        return loss(logits.reshape(-1, logits.size(-1)), labels[:, 1:].reshape(-1))
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
Weighted(model=model, args=TrainingArguments("out", bf16=True), train_dataset=rows).train()
"""


def test_a_loss_that_weighs_words_is_not_the_models_own() -> None:
    for weight, advised in (("", "Let the model compute its loss"), ("weight=w", "weighted mean")):
        (finding,) = found(WEIGHTED.format(weight), "MEM201")
        assert finding.fix is not None
        assert advised in finding.fix.message
