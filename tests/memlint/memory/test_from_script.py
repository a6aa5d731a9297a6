"""Settings read from scripts: lengths of tokenization, adapters of all kinds, precision."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from memlint.api.lookup import Api
from memlint.api.target_versions import newest, parse_target
from memlint.cli.runs_of_file import runs_of_file
from memlint.memory import estimate
from memlint.memory.settings import parse_assumption, read_settings, with_assumption
from memlint.runs.run_settings import settings_of
from memlint.script.model import build_script
from memlint.source import Source

HEAD = """\
from datasets import load_dataset
from peft import DeloraConfig, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer, TrainingArguments

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-0.5B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B")
"""


def settings(text: str) -> dict[str, Any]:
    found = settings_of(build_script(Source("a.py", HEAD + text), Api(newest())))
    assert found is not None
    return found


def test_the_length_of_tokenized_rows_is_the_runs() -> None:
    found = settings("""
def tokenize(rows):
    return tokenizer(rows["text"], truncation=True, max_length=768)

data = load_dataset("a", split="train").map(tokenize, batched=True)
Trainer(model=model, args=TrainingArguments("out"), train_dataset=data).train()
""")
    assert found["seq_len"] == 768


def test_a_chat_template_cuts_rows_to_a_parameters_default() -> None:
    found = settings("""
def encode(row, longest=320):
    return tokenizer.apply_chat_template(
        row["chat"], padding="max_length", truncation=True, max_length=longest, return_dict=True
    )

data = load_dataset("a", split="train").map(encode)
Trainer(model=model, args=TrainingArguments("out"), train_dataset=data).train()
""")
    assert (found["seq_len"], found["fixed_length"]) == (320, True)


def test_every_adapter_is_one() -> None:
    found = settings("""
model = get_peft_model(model, DeloraConfig(r=32))
Trainer(model=model, args=TrainingArguments("out"), train_dataset=data).train()
""")
    assert (found["method"], found["lora"]) == ("lora", {"r": 32})


QUANTIZED = """\
import argparse
import torch
from transformers import BitsAndBytesConfig

parser = argparse.ArgumentParser()
parser.add_argument("--four_bit", {argument})
args = parser.parse_args()
{body}
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B", quantization_config=stored)
model = get_peft_model(model, DeloraConfig(r=32))
Trainer(model=model, args=TrainingArguments("out"), train_dataset=data).train()
"""
CONFIG = "BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type='nf4')"
BODIES = (
    f"stored = None\nif args.four_bit:\n    stored = {CONFIG}",
    f"stored = {CONFIG} if args.four_bit else None",
    f"""
def choose(args):
    if not args.four_bit:
        return None
    return {CONFIG}

stored = choose(args)
""",
    f"stored = {CONFIG}\nif not args.four_bit:\n    stored = None",
    "stored = BitsAndBytesConfig(load_in_4bit=args.four_bit, bnb_4bit_quant_type='nf4')",
)


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize(
    ("argument", "quantized"),
    [
        ("type=bool, default=True", True),
        ("action='store_true'", False),
        ("type=bool, required=True", None),
    ],
)
def test_a_switch_decides_whether_weights_are_quantized(
    body: str, argument: str, quantized: bool | None
) -> None:
    found = settings(QUANTIZED.format(argument=argument, body=body))
    assert ("quantization" in found) is (quantized is not False)
    result = estimate(found)
    doubted = [one for one in result.assumptions if one.name == "quantization.type"]
    assert bool(doubted) is (quantized is None)
    if doubted:
        plain = estimate(with_assumption(result.settings, "quantization.type", "none"))
        assert doubted[0].other == "none"
        assert result.allocated.high >= plain.allocated.estimate > result.allocated.estimate


@pytest.mark.parametrize(
    ("default", "method"), [("default=True", "lora"), ("default=False", "full"), ("", None)]
)
@pytest.mark.parametrize("by_trainer", [False, True])
def test_a_switch_decides_whether_adapters_are_trained(
    default: str, method: str | None, by_trainer: bool
) -> None:
    made = "if args.lora:\n    model = get_peft_model(model, DeloraConfig(r=32))\n"
    trainer = "Trainer(model=model, args=TrainingArguments('out'), train_dataset=data).train()"
    if by_trainer:
        made = "from trl import SFTTrainer\nadapter = DeloraConfig(r=32) if args.lora else None\n"
        trainer = "SFTTrainer(model=model, peft_config=adapter, train_dataset=data).train()"
    parse = f"parser.add_argument('--lora', type=bool, {default or 'required=True'})\n"
    parser = f"import argparse\nparser = argparse.ArgumentParser()\n{parse}"
    found = settings(f"{parser}args = parser.parse_args()\n{made}{trainer}\n")
    assert found["method"] == (method or "lora")
    doubted = [one for one in estimate(found).assumptions if one.name == "method"]
    assert [one.other for one in doubted] == ([] if method else ["full"])


STEP = """
import torch
from torch.utils.data import DataLoader

optimizer = torch.optim.AdamW(model.parameters())
model.train()
{before}
for number, batch in enumerate(DataLoader(rows, batch_size=4)):
    with torch.autocast(device_type="cuda", dtype=torch.float16):
        {forward}
    loss.backward()
    {after}
    optimizer.step()
    optimizer.zero_grad()
"""
KEEPING = "outputs = model(**batch)\n        loss = outputs.loss"
HELPER = """
def loss_of(batch):
    outputs = model(**batch)
    return outputs.loss
"""


@pytest.mark.parametrize(
    ("before", "forward", "after", "held"),
    [
        ("", KEEPING, "", None),
        ("", "loss = model(**batch).loss / 4", "", False),
        ("", "loss = model(**batch)['loss']", "", False),
        ("", KEEPING, "del outputs", False),
        (HELPER, "loss = loss_of(batch)", "", False),
    ],
)
def test_outputs_that_no_name_keeps_are_not_held(
    before: str, forward: str, after: str, held: bool | None
) -> None:
    found = settings(STEP.format(before=before, forward=forward, after=after))
    assert found.get("held_outputs") is held
    assert (found["compute_dtype"], found["autocast"]) == ("float16", True)


PAIRS = """
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, Seq2SeqTrainer

tokenizer = AutoTokenizer.from_pretrained("google/flan-t5-base")
model = AutoModelForSeq2SeqLM.from_pretrained("google/flan-t5-base")


def encode(rows):
    batch = tokenizer(rows["text"], truncation=True, max_length=512)
    labels = tokenizer(rows["title"], truncation=True, max_length={limit})
    {made}


Seq2SeqTrainer(model, train_dataset=data.map(encode, batched=True)).train()
"""


@pytest.mark.parametrize(
    ("made", "label_len", "seq_len"),
    [
        ('batch["labels"] = labels["input_ids"]; return batch', 640, 512),
        ('return {**batch, "labels": labels.input_ids}', 640, 512),
        ('ids = labels["input_ids"]; return {"input_ids": ids, "labels": ids}', None, 640),
        ('labels["labels"] = labels["input_ids"].copy(); return labels', None, 640),
    ],
)
def test_labels_have_a_length_of_their_own(made: str, label_len: int | None, seq_len: int) -> None:
    found = settings(PAIRS.replace("{made}", made).replace("{limit}", "640"))
    assert (found.get("label_len"), found["seq_len"]) == (label_len, seq_len)


@pytest.mark.parametrize(
    ("written", "zeroed"),
    [("set_to_none=False", True), ("", None), ("set_to_none=True", None), ("set_to_none=a", None)],
)
def test_gradients_that_are_zeroed_stay(written: str, zeroed: bool | None) -> None:
    text = STEP.replace("zero_grad()", f"zero_grad({written})")
    found = settings(text.format(before="", forward=KEEPING, after=""))
    assert found.get("zeroed_gradients") is zeroed


def test_gradients_that_are_freed_behind_the_pass_stay_through_it() -> None:
    late = STEP.replace("    optimizer.zero_grad()\n", "")
    late = late.replace("    loss.backward()", "    optimizer.zero_grad()\n    loss.backward()")
    found = settings(late.format(before="", forward=KEEPING, after=""))
    assert found.get("zeroed_gradients") is True


def test_accelerate_converts_what_a_model_returns() -> None:
    text = STEP.format(before="", forward=KEEPING, after="")
    assert "float32_outputs" not in settings(text)
    mixed = 'from accelerate import Accelerator\nAccelerator(mixed_precision="bf16")\n'
    assert settings(mixed + text)["float32_outputs"] is True


def test_a_step_that_most_turns_pass_over_accumulates() -> None:
    passes = "if (number + 1) % 8:\n        continue"
    found = settings(STEP.format(before="", forward=KEEPING, after=passes))
    assert found["gradient_accumulation"] == 8


def test_a_field_made_by_a_lambda_names_adapted_modules() -> None:
    found = settings("""
from dataclasses import dataclass, field
from peft import LoraConfig

@dataclass
class Options:
    targets: list = field(default_factory=lambda: ["o_proj", "up_proj"])

adapter = LoraConfig(r=4, target_modules=Options().targets)
model = get_peft_model(model, adapter)
Trainer(model=model, args=TrainingArguments("out"), train_dataset=data).train()
""")
    assert found["lora"]["target_modules"] == ["o_proj", "up_proj"]


@pytest.mark.parametrize(
    ("options", "optimizer"),
    [("momentum=0.9", "sgd_momentum"), ("momentum=0.0", "sgd"), ("nesterov=False", "sgd")],
)
def test_momentum_among_the_optimizers_arguments_is_read(options: str, optimizer: str) -> None:
    made = f"TrainingArguments('out', optim='sgd', optim_args='{options}')"
    found = settings(f"Trainer(model=model, args={made}, train_dataset=data).train()")
    assert found["optimizer"] == optimizer


def test_without_mixed_precision_the_weights_dtype_computes() -> None:
    found = settings("""
args = TrainingArguments("out", bf16=False, fp16=False)
Trainer(model=model, args=args, train_dataset=data).train()
""")
    result = estimate({**found, "weights_dtype": "float32"})
    assert result.settings.compute_dtype == "float32"
    assert "compute_dtype" not in {
        each.name
        for each in estimate(
            settings("""
args = TrainingArguments("out", bf16=True)
Trainer(model=model, args=args, train_dataset=data).train()
""")
        ).assumptions
    }


def test_a_loop_says_its_rows_and_its_precision() -> None:
    loop = """
import torch
from torch.utils.data import DataLoader

data = load_dataset("a", split="train")
loader = DataLoader(data, batch_size=12, shuffle=True)
optimizer = torch.optim.AdamW(model.parameters())
model.train()
for batch in loader:
    loss = model(**batch).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""
    found = settings(loop)
    assert (found["micro_batch"], found["autocast"]) == (12, False)
    mixed = settings(
        loop.replace("    loss = model", "    with torch.autocast('cuda'):\n        loss = model")
    )
    assert (mixed["compute_dtype"], mixed["autocast"]) == ("float16", True)
    by_flag = settings(loop.replace("data =", "import lightning\n\nlightning.Fabric()\ndata ="))
    assert "autocast" not in by_flag


def test_old_checkpoints_are_in_float32() -> None:
    assert estimate({"model": "gpt2", "micro_batch": 1}).settings.weights_dtype == "float32"
    assert estimate({"model": "t5-small", "micro_batch": 1}).settings.seq_len == 512
    assert (
        estimate({"model": "Qwen/Qwen3-8B", "micro_batch": 1}).settings.weights_dtype == "bfloat16"
    )


def test_what_the_runtime_does_is_read() -> None:
    found = settings("""
from memlint_runtime import fuse_causal_lm_loss

fuse_causal_lm_loss(model)
Trainer(model=model, args=TrainingArguments("out"), train_dataset=data).train()
""")
    assert found["loss"] == "liger"
    assert found["checkpointing"] == "none"


def test_a_streamed_base_is_quantized_as_it_is_loaded() -> None:
    for kind, bits in (("nf4", 4), ("int8", 8)):
        found = settings(f"""
from memlint_runtime import load_streamed

model = load_streamed("Qwen/Qwen3-8B", quantization="{kind}", peft_config=LoraConfig())
Trainer(model=model, args=TrainingArguments("out"), train_dataset=data).train()
""")
        assert (found["quantization"]["type"], found["quantization"]["bits"]) == (kind, bits)
        assert found["streamed"] is True


STUDENT = 'student = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", dtype="bfloat16")\n'
TEACHER = 'teacher = AutoModelForCausalLM.from_pretrained("{name}", dtype="bfloat16")\n'
DISTILLATION = """
optimizer = torch.optim.AdamW(student.parameters())
for batch in loader:
    {context}:
        wanted = teacher(batch["input_ids"]).logits
    with torch.autocast("cuda", dtype=torch.float16):
        found = student(batch["input_ids"]).logits
    (found - wanted).square().mean().backward()
    optimizer.step()
"""
IMPORTS = "import torch\nfrom transformers import AutoModelForCausalLM\n"


def distillation(*loads: str, context: str = "with torch.no_grad()") -> dict[str, Any]:
    text = IMPORTS + "".join(loads) + DISTILLATION.format(context=context)
    found = settings_of(build_script(Source("a.py", text), Api(newest())))
    assert found is not None
    return found


@pytest.mark.parametrize("loads", [(STUDENT, TEACHER), (TEACHER, STUDENT)], ids=["last", "first"])
@pytest.mark.parametrize("context", ["with torch.no_grad()", "if True"])
def test_a_loop_trains_the_student_and_holds_the_teacher(
    loads: tuple[str, ...], context: str
) -> None:
    name = "Qwen/Qwen3-8B"
    found = distillation(*(text.format(name=name) for text in loads), context=context)
    assert (found["model"], found["frozen_models"]) == ("Qwen/Qwen3-0.6B", {name: "bfloat16"})
    assert (found["compute_dtype"], found["autocast"]) == ("float16", True)
    held, alone = estimate(found), estimate({**found, "frozen_models": {}})
    gib = (held.peak.total - alone.peak.total) / 2**30
    assert gib == pytest.approx(8.19e9 * 2 / 2**30, rel=0.01)
    assert held.trainable < 600e6


def test_quantized_weights_of_a_teacher_are_smaller() -> None:
    run = distillation(STUDENT) | {"seq_len": 128}
    sizes = [
        estimate({**run, "frozen_models": {"Qwen/Qwen3-8B": stored}}).peak.total
        for stored in ("nf4", "int8", "bfloat16")
    ]
    assert sizes == sorted(sizes)
    assert 2.5 < (sizes[1] - sizes[0]) / 2**30 < 3.5


def test_a_teacher_of_unknown_shape_is_an_assumption() -> None:
    result = estimate(distillation(STUDENT, TEACHER.format(name="nobody/Unknown-8B")))
    (one,) = [each for each in result.assumptions if each.name.startswith("frozen_models")]
    assert one.flag == "--assume frozen_models.nobody/Unknown-8B=ignored"
    settled = with_assumption(read_settings({"model": "gpt2"}), *parse_assumption(one.flag[9:]))
    assert settled.frozen_models == {}


DIVIDED = """\
from accelerate import ParallelismConfig
from trl import SFTConfig, SFTTrainer
parts = ParallelismConfig({sizes})
args = SFTConfig("out", max_length=65536, parallelism_config=parts)
SFTTrainer("meta-llama/Llama-3.1-8B", args=args, train_dataset=rows).train()
"""


def test_contexts_are_divided_over_gpus() -> None:
    read = settings(DIVIDED.format(sizes="cp_size=4, dp_shard_size=2"))
    assert read["world_size"] == 8
    assert read["sharding_options"] == {"cp_size": 4}
    assert "sharding" not in settings(DIVIDED.format(sizes="cp_size=count()"))
    kept = [
        estimate(read_settings(settings(DIVIDED.format(sizes=sizes)))).peak.total
        for sizes in ("dp_shard_size=8", "cp_size=8")
    ]
    assert kept[1] < kept[0] / 4


@pytest.mark.parametrize(
    ("version", "options", "loss"),
    [
        ("1.5", "", None),
        ("1.9", "", "chunked"),
        ("1.9", 'loss_type="nll"', None),
        ("1.9", "use_liger_kernel=True", "liger"),
    ],
)
def test_the_loss_that_a_release_fills_in_is_read(
    version: str, options: str, loss: str | None
) -> None:
    script = f"""
from trl import SFTConfig, SFTTrainer
SFTTrainer("Qwen/Qwen3-0.6B", args=SFTConfig("out", {options}), train_dataset=data).train()
"""
    target = parse_target(f"trl={version},transformers=5.20")
    found = settings_of(build_script(Source("a.py", script), Api(target)))
    assert found is not None
    assert found.get("loss") == loss


def test_bf16_that_is_left_open_is_on() -> None:
    script = """
from trl import SFTConfig, SFTTrainer
SFTTrainer("Qwen/Qwen3-0.6B", args=SFTConfig("out", bf16=None), train_dataset=data).train()
"""
    found = settings_of(build_script(Source("a.py", script), Api(newest())))
    assert found is not None
    assert found["compute_dtype"] == "bfloat16"


def test_arguments_that_trl_once_gave_its_trainers_are_read() -> None:
    own = "max_length=700, max_prompt_length=300"
    text = HEAD + (
        "from trl import {0}\n"
        "args = TrainingArguments('out', per_device_train_batch_size=2)\n"
        "{0}(model, args=args, train_dataset=load_dataset('a', split='train'), {1}).train()\n"
    )
    old = Api(parse_target("trl=0.9.6,transformers=4.44"))
    for name, given, expected in (
        ("SFTTrainer", "max_seq_length=2048, packing=True", {"seq_len": 2048, "packed": True}),
        ("DPOTrainer", own, {"seq_len": 700, "prompt_len": 300}),
    ):
        found = settings_of(build_script(Source("a.py", text.format(name, given)), old))
        assert found is not None
        assert expected.items() <= found.items()
        assert found["micro_batch"] == 2


ENGINE = """
import argparse
import deepspeed
from transformers import AutoModelForCausalLM

parser = argparse.ArgumentParser()
parser.add_argument("--base", default="Qwen/Qwen2.5-0.5B")
{more}
args = parser.parse_args()
model = AutoModelForCausalLM.from_pretrained(args.base)
engine, *_ = deepspeed.initialize(args=args, model=model, model_parameters=model.parameters())
for batch in rows:
    loss = engine(**batch).loss
    engine.backward(loss)
    engine.step()
"""
OPTIONS = (
    "parser = deepspeed.add_config_arguments(parser)",
    "parser.add_argument('--deepspeed_config', default=None)",
)


@pytest.mark.parametrize("more", OPTIONS)
def test_the_engine_takes_the_file_that_the_command_names(tmp_path: Path, more: str) -> None:
    (tmp_path / "zero.json").write_text('{"zero_optimization": {"stage": 3}}')
    (tmp_path / "engine.py").write_text(ENGINE.format(more=more))
    start = tmp_path / "start.sh"
    start.write_text("deepspeed --num_gpus 4 engine.py --deepspeed_config zero.json\n")
    (run,) = runs_of_file(str(start), None, None)
    assert (run.settings["sharding"], run.settings["world_size"]) == ("zero3", 4)
    start.write_text("deepspeed --num_gpus 4 engine.py --deepspeed_config elsewhere.json\n")
    (run,) = runs_of_file(str(start), None, None)
    assert "out of sight" in run.settings["notes"]["sharding"]


def test_merged_configurations_are_read(tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text("model: {name: gpt2, bits: 4}\nrows: 3\nnames: [c_attn]\n")
    (tmp_path / "train.py").write_text(
        HEAD
        + """
import sys
from omegaconf import OmegaConf
from peft import LoraConfig

more = {"model": {"name": "gpt2-large"}}
cfg = OmegaConf.merge(OmegaConf.load("base.yaml"), more, OmegaConf.from_cli(sys.argv[1:]))
model = AutoModelForCausalLM.from_pretrained(cfg.model.name, load_in_4bit=cfg.model.bits == 4)
model = get_peft_model(model, LoraConfig(target_modules=list(cfg.names)))
args = TrainingArguments("out", per_device_train_batch_size=cfg.rows)
Trainer(model=model, args=args, train_dataset=data).train()
"""
    )
    (run,) = runs_of_file(str(tmp_path / "train.py"), None, None)
    assert (run.settings["model"], run.settings["micro_batch"]) == ("gpt2-large", 3)
    assert run.settings["lora"]["target_modules"] == ["c_attn"]


CLASSIFIER = """
import argparse
from transformers import AutoModelForSequenceClassification, Trainer, TrainingArguments

parser = argparse.ArgumentParser()
parser.add_argument("--freeze", {freeze})
args = parser.parse_args()
model = AutoModelForSequenceClassification.from_pretrained("bert-base-uncased", num_labels=3)
{switch}
Trainer(model=model, args=TrainingArguments("out", bf16=True), train_dataset=data).train()
"""
BY_NAME = """
for name, weight in model.named_parameters():
    if {test}:
        weight.requires_grad = False
"""
PART = "a part"


@pytest.mark.parametrize(
    ("switch", "frozen"),
    [
        ("for weight in model.bert.parameters():\n    weight.requires_grad = False", "backbone"),
        ("for weight in model.base_model.parameters(): weight.requires_grad_(False)", "backbone"),
        ("model.bert.requires_grad_(False)", "backbone"),
        ("model.requires_grad_(False)\nmodel.classifier.requires_grad_(True)", "backbone"),
        (BY_NAME.format(test="not name.startswith('classifier')"), "backbone"),
        (BY_NAME.format(test="'classifier' not in name"), "backbone"),
        (BY_NAME.format(test="name.startswith('bert')"), "backbone"),
        (BY_NAME.format(test="'embeddings' in name"), "embeddings"),
        ("model.bert.embeddings.requires_grad_(False)", "embeddings"),
        (BY_NAME.format(test="'layer.11' not in name"), PART),
        ("model.requires_grad_(False)\nmodel.bert.encoder.layer[-1].requires_grad_(True)", PART),
        ("model.bert.encoder.layer[:6].requires_grad_(False)", PART),
        ("if args.freeze:\n    model.bert.requires_grad_(False)", PART),
        ("other = model.config\nother.requires_grad_(False)", None),
    ],
)
def test_frozen_weights_are_read(switch: str, frozen: str | None) -> None:
    found = settings(CLASSIFIER.format(freeze="type=bool, required=True", switch=switch))
    result = estimate(found)
    doubted = [one for one in result.assumptions if one.name == "frozen"]
    if frozen == PART:
        assert doubted[0].other == "backbone"
        assert result.allocated.low < 0.5 * result.allocated.estimate
    else:
        assert (found.get("frozen"), doubted) == (frozen, [])


@pytest.mark.parametrize(("default", "frozen"), [("True", "backbone"), ("False", None)])
def test_a_switch_decides_whether_weights_are_frozen(default: str, frozen: str | None) -> None:
    switch = "if args.freeze:\n    model.bert.requires_grad_(False)"
    found = settings(CLASSIFIER.format(freeze=f"type=bool, default={default}", switch=switch))
    assert (found.get("frozen"), "frozen" in found["notes"]) == (frozen, False)


ROLLOUTS = """
from torch.utils.data import DataLoader
from transformers import AutoModelForSequenceClassification

STUDENT
TEACHER
judge = AutoModelForSequenceClassification.from_pretrained("distilbert-base-uncased").eval()
judge.requires_grad_(False)
teacher.requires_grad_(False)
tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
optimizer = torch.optim.AdamW(student.parameters())

def collate(rows):
    return tokenizer(rows, truncation=True, max_length=100, padding="max_length")

def chances(model, ids):
    return torch.log_softmax(model(input_ids=ids).logits, -1)

for batch in DataLoader(load_dataset("a", split="train"), batch_size=2, collate_fn=collate):
    with torch.no_grad():
        ids = student.generate(**batch, max_new_tokens=60)
        plain = chances(teacher, ids)
        reward = judge(ids).logits
    for turn in range(4):
        ratio = (chances(student, ids) - plain).exp() * reward
        optimizer.zero_grad()
        ratio.mean().backward()
        optimizer.step()
"""


def test_a_loop_of_rollouts_counts_completions_and_the_models_beside_it() -> None:
    teacher = TEACHER.format(name="Qwen/Qwen3-1.7B")
    text = ROLLOUTS.replace("STUDENT", STUDENT).replace("TEACHER", teacher)
    found = settings(f"import torch\n{text}")
    assert (found["model"], found["micro_batch"], found["seq_len"]) == ("Qwen/Qwen3-0.6B", 2, 160)
    assert set(found["frozen_models"]) == {"Qwen/Qwen3-1.7B", "distilbert-base-uncased"}
    # A sample that is only printed now and then is not trained on.
    shown = text.replace("        ids = student", "        if turns % 50 == 0: ids = student")
    assert settings(f"import torch\n{shown}")["seq_len"] == 100


@pytest.mark.parametrize(
    ("kept", "wide"),
    [
        ("logits = model(**batch).logits.float()", True),
        ("logits = model(**batch).logits.to(torch.float32)", True),
        ("logits = model(**batch).logits", None),
        ("out = model(**batch)\n    logits = out.logits.float()", None),
    ],
)
def test_logits_that_a_loop_keeps_in_float32(kept: str, wide: bool | None) -> None:
    found = settings(f"""
import torch

model.to("cuda", torch.bfloat16)
optimizer = torch.optim.AdamW(model.parameters())
for batch in loader:
    {kept}
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch["labels"].flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
""")
    assert found.get("float32_outputs") is wide


@pytest.mark.parametrize(
    ("load", "step", "held"),
    [
        ("", "out = model(**batch)\n    out.loss.backward()", True),
        ("", "out = model(**batch, use_cache=False)\n    out.loss.backward()", None),
        ("", "loss = model(**batch).loss\n    loss.backward()", None),
        (
            "model.gradient_checkpointing_enable()",
            "out = model(**batch)\n    out.loss.backward()",
            None,
        ),
        ("model.config.use_cache = False", "out = model(**batch)\n    out.loss.backward()", None),
    ],
)
def test_a_cache_that_a_loop_keeps_with_its_outputs(
    load: str, step: str, held: bool | None
) -> None:
    found = settings(f"""
import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B", dtype=torch.bfloat16).cuda()
{load}
optimizer = torch.optim.AdamW(model.parameters())
for batch in loader:
    {step}
    getattr(out, "loss", out).backward()
    optimizer.step()
    optimizer.zero_grad()
""")
    assert found.get("held_cache") is held


@pytest.mark.parametrize(
    ("load", "after", "held"),
    [
        ('torch.load("a.pt", map_location="cuda")', "", True),
        ('torch.load("a.pt", map_location="cuda")', "del state", None),
        ('torch.load("a.pt", map_location="cuda")', "state = None", None),
        ('torch.load("a.pt", map_location="cpu")', "", None),
        ('torch.load("a.pt")', "", None),
        ('torch.load("a.pt", map_location=place)', "", None),
    ],
)
def test_a_checkpoint_that_a_name_keeps_on_the_gpu(
    load: str, after: str, held: bool | None
) -> None:
    read = f"state = {load}\nmodel.load_state_dict(state)\n{after}\n"
    train = 'args = TrainingArguments("out")\nTrainer(model, args, train_dataset=data).train()\n'
    assert settings(f"import torch\n{read}{train}").get("held_checkpoint") is held
    assert "held_checkpoint" not in settings(f"import torch\n{train}{read}")
    within = "".join(f"    {line}\n" for line in read.splitlines())
    other = f"import torch\ndef load():\n{within}load()\n{train}"
    assert "held_checkpoint" not in settings(other)


@pytest.mark.parametrize(("dtype", "copies"), [("bfloat16", 1), ("float32", 4)])
def test_a_distillations_copies_have_the_dtype_of_its_logits(dtype: str, copies: int) -> None:
    loop = """
import torch.nn.functional as F
from accelerate import Accelerator

def gap(logits, wanted, heat):
    logits, wanted = F.log_softmax(logits / heat, dim=-1), F.softmax(wanted / heat, dim=-1)
    return F.kl_div(logits, wanted, reduction="batchmean")

accelerator = Accelerator()
optimizer = torch.optim.AdamW(student.parameters())
student.train()
for batch in loader:
    with torch.no_grad():
        wanted = teacher(**batch)
    found = student(**batch)
    accelerator.backward(found.loss + gap(found.logits, wanted.logits, 2.0))
    optimizer.step()
"""
    text = IMPORTS + STUDENT + TEACHER.format(name="Qwen/Qwen3-1.7B") + loop
    text = text.replace("bfloat16", dtype)
    read = settings_of(build_script(Source("a.py", text), Api(newest())))
    assert read is not None
    assert read["logits_copies"] == copies


def test_a_loader_of_another_file_takes_what_its_function_is_given(tmp_path: Path) -> None:
    (tmp_path / "feed.py").write_text(
        "from torch.utils.data import DataLoader\n\n"
        "def feed(rows, size):\n    return DataLoader(rows, batch_size=size, drop_last=True)\n"
    )
    step = STEP.format(before="from feed import feed", forward=KEEPING, after="")
    step = step.replace("DataLoader(rows, batch_size=4)", "feed(rows, size=6)")
    (tmp_path / "train.py").write_text(HEAD + step)
    (run,) = runs_of_file(str(tmp_path / "train.py"), None, None)
    assert run.settings["micro_batch"] == 6


@pytest.mark.parametrize(
    ("start", "count"),
    [
        ("NPROC_PER_NODE=4 llamafactory-cli train tune.yaml", 4),
        ("export NPROC_PER_NODE=2\nllamafactory-cli train tune.yaml", 2),
        ("NNODES=2 NPROC_PER_NODE=4 llamafactory-cli train tune.yaml", 8),
        ("llamafactory-cli train tune.yaml", None),
    ],
)
def test_llama_factory_takes_its_processes_from_the_environment(
    tmp_path: Path, start: str, count: int | None
) -> None:
    (tmp_path / "zero.json").write_text('{"zero_optimization": {"stage": 2}}')
    recipe = "model_name_or_path: Qwen/Qwen2.5-0.5B\nstage: sft\ntemplate: qwen\n"
    recipe += "finetuning_type: full\ndo_train: true\ndataset: a\noutput_dir: out\n"
    (tmp_path / "tune.yaml").write_text(f"{recipe}deepspeed: zero.json\n")
    (tmp_path / "start.sh").write_text(f"{start}\n")
    (run,) = runs_of_file(str(tmp_path / "start.sh"), None, None)
    assert (run.settings["sharding"], run.settings.get("world_size")) == ("zero2", count)


PREPARED = """\
    config = transformers.BitsAndBytesConfig(load_in_4bit=True)
    model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-7B", quantization_config=config)
    model = get_peft_model(peft.prepare_model_for_kbit_training(model), peft.LoraConfig())
"""


@pytest.mark.parametrize("default", [False, True])
@pytest.mark.parametrize("calls", ["    model.gradient_checkpointing_enable()\n", PREPARED])
def test_checkpointing_behind_a_switch_is_that_of_its_default(calls: str, default: bool) -> None:
    found = settings(
        "import argparse\nimport peft\nimport transformers\n"
        "parser = argparse.ArgumentParser()\n"
        f'parser.add_argument("--again", type=bool, default={default})\n'
        f"if parser.parse_args().again:\n{calls}"
        'Trainer(model, TrainingArguments("o", bf16=True), train_dataset=rows).train()\n'
    )
    assert found["checkpointing"] == ("full" if default else "none")
