"""What a script trains: by trainers and by loops, on how many GPUs, and what becomes of it."""

from __future__ import annotations

import pytest

from memlint.rule import facts
from memlint.script.restoring import Fate
from memlint.script.trained import Trained
from tests.memlint.script.scripts import read

LOAD = """
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
from trl import SFTConfig, SFTTrainer
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-4B", dtype=torch.float32)
"""
LOOP = """
for batch in loader:
    model(**batch).loss.backward()
    optimizer.step()
"""


def only(text: str) -> Trained:
    (one,) = read(text).trained
    return one


def test_a_trainer_and_a_loop_train_the_same() -> None:
    for text in (LOAD + "Trainer(model, TrainingArguments('out')).train()\n", LOAD + LOOP):
        one = only(text)
        assert (one.facts.billions, one.dtype, one.peft) == (4.0, "torch.float32", False)
        assert one.is_plain
        assert one.load is not None


def test_a_model_given_by_name_is_a_checkpoint() -> None:
    one = only(LOAD + 'SFTTrainer("Qwen/Qwen3-8B", args=SFTConfig()).train()\n')
    assert (one.facts.billions, one.dtype, one.load) == (8.0, "torch.float32", None)
    assert one.is_plain


@pytest.mark.parametrize(
    "change",
    [
        "model = get_peft_model(model, LoraConfig())",
        "model = load_model('Qwen/Qwen3-4B')",
        "model = AutoModelForCausalLM.from_pretrained('Qwen/Qwen3-4B', load_in_4bit=True)",
    ],
)
def test_adapters_and_models_of_unknown_make_are_not_plain(change: str) -> None:
    for training in ("Trainer(model, TrainingArguments('out')).train()\n", LOOP):
        assert not any(one.is_plain for one in read(f"{LOAD}{change}\n{training}").trained)


def test_a_cast_under_a_condition_leaves_the_dtype_open() -> None:
    assert only(LOAD + "if flag():\n    model.to(torch.bfloat16)\n" + LOOP).dtype is None
    assert only(LOAD + "model.to(torch.bfloat16)\n" + LOOP).dtype == "torch.bfloat16"


@pytest.mark.parametrize(
    ("trainer", "optimizer"),
    [
        ("Trainer(model, TrainingArguments('out', optim='sgd'))", "sgd"),
        ("Trainer(model, TrainingArguments('out'))", "adamw_torch_fused"),
        ("Trainer(model, TrainingArguments('out'), optimizers=(o, s))", None),
        ("Trainer(model, TrainingArguments('out', optim_args='rank=8'))", None),
    ],
)
def test_the_setting_that_decides_the_optimizer(trainer: str, optimizer: str | None) -> None:
    setting = only(f"{LOAD}{trainer}.train()\n").optimizer
    assert (setting.value if setting is not None else None) == optimizer


@pytest.mark.parametrize(
    "sharding",
    [
        "import deepspeed",
        "from torch.distributed.fsdp import FullyShardedDataParallel as F\nmodel = F(model)",
        "TrainingArguments('out', deepspeed='zero2.json')",
        "TrainingArguments('out', fsdp='full_shard')",
        "from accelerate import ParallelismConfig\nParallelismConfig(tp_size=2)",
    ],
)
def test_what_shares_a_models_state_among_gpus(sharding: str) -> None:
    assert read(f"{LOAD}{sharding}\n").is_sharded
    assert not read(LOAD + "TrainingArguments('out', deepspeed=None, fsdp='')\n").is_sharded


def test_steps_are_loops_with_an_optimizer_and_methods_of_trainers() -> None:
    script = read("""
    class Own(Trainer):
        def training_step(self, model, inputs):
            return super().training_step(model, inputs)
    def compute_loss(model): ...
    for batch in loader:
        model(**batch).loss.backward()
        optimizer.step()
    for batch in loader:
        model(**batch).loss.backward()
    """)
    assert [body.lineno for body in facts.step_bodies(script)] == [6, 3]  # type: ignore[attr-defined]


def test_what_lets_go_between_two_places() -> None:
    def lets_go(text: str) -> bool:
        script = read(f"def clear():\n    global model\n    del model\nfirst()\n{text}\nlast()\n")
        first, last = script.calls[0], script.calls[-1]
        return facts.lets_go_between(script, first.node, last.node)

    assert lets_go("del trainer")
    assert lets_go("self.model = None")
    assert lets_go("clear()")
    assert not lets_go("torch.cuda.empty_cache()")


def test_arms_of_one_condition_exclude_each_other() -> None:
    script = read("if merge:\n    a()\nelse:\n    b()\nc()\nif merge:\n    d()\n")
    a, b, c, d = (call.node for call in script.calls)
    assert facts.are_exclusive(script, a, b)
    assert not facts.are_exclusive(script, a, c)
    assert not facts.are_exclusive(script, a, d)


RESTORED = {
    "at once": 'model.load_state_dict(torch.load("f"))',
    "by a name": 'c = torch.load("f")\nmodel.load_state_dict(c["model"])\nstart = c["epoch"] + 1',
    "by get": 'c = torch.load("f")\nmodel.load_state_dict(c.get("model"))',
    "one of two": 'c = torch.load("f")\ns = c["a"] if "a" in c else c\nmodel.load_state_dict(s)',
    "renamed": 'c = torch.load("f")\nmodel.load_state_dict({k[7:]: v for k, v in c.items()})',
    "returned": 'def read():\n    return torch.load("f")\nmodel.load_state_dict(read())',
}
USED = {
    "data": 'data = torch.load("f")\ntrain(data)',
    "returned and used": 'def read():\n    return torch.load("f")\n'
    'model.load_state_dict(read())\nx = read()["mask"] * 2',
    "tensors beside": 'c = torch.load("f")\nmodel.load_state_dict(c["model"])\nx = c["mask"] * 2',
    "kept": 'self.c = torch.load("f")\nmodel.load_state_dict(self.c)',
    "looked at": 'c = torch.load("f")\nprint(c["epoch"])',
}


@pytest.mark.parametrize("name", [*RESTORED, *USED])
def test_what_becomes_of_a_checkpoint(name: str) -> None:
    script = read("import torch\n" + (RESTORED | USED)[name])
    (call,) = script.calls_to("torch.load")
    fates = facts.fates_of(script, call)
    assert (Fate.RESTORED in fates and Fate.UNKNOWN not in fates) is (name in RESTORED)


@pytest.mark.parametrize(
    "text",
    [
        'c = torch.load("f")\nmodel.load_state_dict(c["model"])\nbest = c["best_score"]',
        'c = torch.load("f")\nmodel.load_state_dict(c["m"])\nema.load_state_dict(c["e"])',
    ],
)
def test_what_may_keep_a_tensor_as_it_was_read(text: str) -> None:
    script = read("import torch\n" + text)
    (call,) = script.calls_to("torch.load")
    assert facts.fates_of(script, call) == {Fate.RESTORED, Fate.KEPT}


@pytest.mark.parametrize(
    ("device", "names"),
    [
        ('"cuda:0"', ("cuda:0",)),
        ('torch.device("cuda" if torch.cuda.is_available() else "cpu")', ("cuda", "cpu")),
        ('"cuda" if flag() else "cpu"', ("cuda", "cpu")),
        ("accelerator.device", ("",)),
    ],
)
def test_names_of_a_device(device: str, names: tuple[str, ...]) -> None:
    script = read(f'import torch\ntorch.load("f", map_location={device})\n')
    (call,) = script.calls_to("torch.load")
    assert facts.names_of_device(script, call.setting("map_location").raw) == names


def test_what_each_turn_of_a_loop_runs() -> None:
    script = read("""
    for batch in loader:
        a()
        if flag:
            b()
        with context():
            c()
        try:
            d()
        except Error:
            e()
        for row in batch:
            f()
    g()
    """)
    (loop,) = [one for one in script.tree.body if hasattr(one, "iter")]
    each = [
        call.node.func.id  # type: ignore[attr-defined]
        for call in script.calls
        if script.flow.is_run_each_turn(loop, call.node)
    ]
    assert each == ["a", "context", "c", "d"]
