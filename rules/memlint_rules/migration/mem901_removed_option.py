"""An option, class, function, attribute or value that the target version does not have.

Libraries rename and move: a script of last year raises TypeError or ImportError on today's trl and
transformers, often only after the model has been loaded. The tables say what each release has; what
took a thing's place is written down with its source in ``memlint.api``.
"""

from __future__ import annotations

from collections.abc import Iterator

from memlint.rule import Example, Finding, Level, Rule, Script
from memlint_rules._batched_formatting import batched_formatting
from memlint_rules._libraries import LIBRARIES
from memlint_rules._lost_limits import lost_limits
from memlint_rules._outdated_overrides import outdated_overrides
from memlint_rules._removed_attributes import removed_attributes
from memlint_rules._removed_names import removed_imports
from memlint_rules._removed_options import removed_options


def check(script: Script) -> Iterator[Finding]:
    yield from removed_imports(script)
    yield from removed_options(script)
    yield from removed_attributes(script)
    yield from outdated_overrides(script)
    yield from batched_formatting(script)
    yield from lost_limits(script)


RULE = Rule(
    code="MEM901",
    name="removed-option",
    level=Level.ERROR,
    summary="an option, name, attribute or value that the target version does not have",
    why=(
        "It raises an error, often after the model has been loaded: TypeError for a keyword, "
        "ImportError or AttributeError for a name, a method or an attribute, ValueError for a "
        "value. Keywords count even when they are False; trainer keywords moved to the configuration, classes to "
        "`trl.experimental`, quantization flags to `BitsAndBytesConfig`."
    ),
    fix_safety=(
        "Safe where the successor means the same; unsafe where a limit or an option is lost, or a "
        "formatting function made one text of a whole batch; advice where nothing took its place "
        "or the value cannot be read where it has to go. A limit that a trainer of your own may "
        "read stays an attribute of the arguments, and the data are cut as well."
    ),
    check=check,
    triggers=(LIBRARIES,),
    references=(
        "https://github.com/huggingface/trl/releases",
        "https://github.com/huggingface/transformers/blob/main/MIGRATION_GUIDE_V5.md",
    ),
    examples=(
        Example(
            title="renamed",
            findings=2,
            bad="""\
from transformers import Trainer, TrainingArguments

args = TrainingArguments("out", evaluation_strategy="epoch")  # every epoch
trainer = Trainer(model=model, args=args, tokenizer=tokenizer)
""",
            good="""\
from transformers import Trainer, TrainingArguments

args = TrainingArguments("out", eval_strategy="epoch")  # every epoch
trainer = Trainer(model=model, args=args, processing_class=tokenizer)
""",
        ),
        Example(
            title="moved to the configuration",
            findings=3,
            bad="""\
from trl import SFTConfig, SFTTrainer

args = SFTConfig("out")
trainer = SFTTrainer(
    model,
    args=args,
    max_seq_length=2048,
    packing=True,
    dataset_text_field="text",
)
""",
            good="""\
from trl import SFTConfig, SFTTrainer

args = SFTConfig("out", dataset_text_field="text", max_length=2048, packing=True)
trainer = SFTTrainer(
    model,
    args=args,
)
""",
        ),
        Example(
            title="no configuration yet",
            bad="""\
from trl import SFTTrainer

trainer = SFTTrainer(model, train_dataset=dataset, packing=True)
""",
            good="""\
from trl import SFTConfig, SFTTrainer

trainer = SFTTrainer(model, train_dataset=dataset, args=SFTConfig(packing=True))
""",
        ),
        Example(
            title="plain arguments from the command line",
            findings=2,
            bad="""\
from transformers import HfArgumentParser, TrainingArguments
from trl import SFTTrainer

(args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
trainer = SFTTrainer(model, args=args, max_seq_length=2048, packing=True)
""",
            good="""\
from transformers import HfArgumentParser, TrainingArguments
from trl import SFTConfig, SFTTrainer

(args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
trainer = SFTTrainer(model, args=SFTConfig(**{**args.to_dict(), "hub_token": args.hub_token}, max_length=2048, packing=True))
""",
        ),
        Example(
            title="quantization flags",
            bad="""\
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", load_in_4bit=True, device_map="auto")
""",
            good="""\
from transformers import AutoModelForCausalLM, BitsAndBytesConfig

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", device_map="auto", quantization_config=BitsAndBytesConfig(load_in_4bit=True))
""",
        ),
        Example(
            title="flags that may both be off",
            findings=2,
            bad="""\
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", load_in_4bit=four, load_in_8bit=eight)
""",
            good="""\
from transformers import AutoModelForCausalLM, BitsAndBytesConfig

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", quantization_config=BitsAndBytesConfig(load_in_4bit=four, load_in_8bit=eight) if four or eight else None)
""",
        ),
        Example(
            title="a flag that the command line may set",
            bad="""\
import argparse
from transformers import AutoModelForCausalLM

parser = argparse.ArgumentParser()
parser.add_argument("--four", default=False)
options = parser.parse_args()
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", load_in_4bit=options.four)
""",
            good="""\
import argparse
from transformers import AutoModelForCausalLM, BitsAndBytesConfig

parser = argparse.ArgumentParser()
parser.add_argument("--four", default=False)
options = parser.parse_args()
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", quantization_config=BitsAndBytesConfig(load_in_4bit=options.four) if options.four else None)
""",
        ),
        Example(
            title="a limit that the runtime keeps",
            bad="""\
from trl import GRPOConfig, GRPOTrainer

args = GRPOConfig("out", max_prompt_length=512)
trainer = GRPOTrainer("Qwen/Qwen3-0.6B", reward_funcs=reward, args=args, train_dataset=dataset, eval_dataset=held_out)
""",
            good="""\
from trl import GRPOConfig, GRPOTrainer
from memlint_runtime import truncate_text
from transformers import AutoTokenizer

args = GRPOConfig("out")
trainer = GRPOTrainer("Qwen/Qwen3-0.6B", reward_funcs=reward, args=args, train_dataset=dataset.map(truncate_text, fn_kwargs={"tokenizer": AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B"), "max_length": 512}), eval_dataset=held_out.map(truncate_text, fn_kwargs={"tokenizer": AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B"), "max_length": 512}) if held_out is not None else None)
""",
        ),
        Example(
            title="a limit that the runtime keeps, with the tokenizer that the trainer loads",
            bad="""\
from trl import GRPOConfig, GRPOTrainer

args = GRPOConfig("out", max_prompt_length=512)
trainer = GRPOTrainer(model="Qwen/Qwen3-0.6B", reward_funcs=reward, args=args, train_dataset=dataset)
""",
            good="""\
from trl import GRPOConfig, GRPOTrainer
from memlint_runtime import truncate_text
from transformers import AutoTokenizer

args = GRPOConfig("out")
trainer = GRPOTrainer(model="Qwen/Qwen3-0.6B", reward_funcs=reward, args=args, train_dataset=dataset.map(truncate_text, fn_kwargs={"tokenizer": AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B"), "max_length": 512}))
""",
        ),
        Example(
            title="a limit that a trainer of the project's own may read",
            bad="""\
from trl import GRPOConfig
from project.trainer import PairwiseTrainer

args = GRPOConfig("out", max_prompt_length=512)
trainer = PairwiseTrainer(model="Qwen/Qwen3-0.6B", args=args, train_dataset=dataset)
""",
            good="""\
from trl import GRPOConfig
from project.trainer import PairwiseTrainer
from memlint_runtime import truncate_text
from transformers import AutoTokenizer

args = GRPOConfig("out")
# No option of trl's own any more; a trainer that is not trl's may read it.
args.max_prompt_length = 512
trainer = PairwiseTrainer(model="Qwen/Qwen3-0.6B", args=args, train_dataset=dataset.map(truncate_text, fn_kwargs={"tokenizer": AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B"), "max_length": 512}))
""",
        ),
        Example(
            title="a limit that a trainer of the script's own reads",
            findings=2,
            bad="""\
from trl import GRPOTrainer

class Paired(GRPOTrainer):
    def cut(self, ids):
        if self.max_prompt_length is not None:
            ids = ids[:, -self.max_prompt_length :]
        return ids
""",
            good="""\
from trl import GRPOTrainer

class Paired(GRPOTrainer):
    def cut(self, ids):
        if getattr(self.args, "max_prompt_length", None) is not None:
            ids = ids[:, -getattr(self.args, "max_prompt_length", None) :]
        return ids
""",
        ),
        Example(
            title="a limit that the script reads again",
            findings=2,
            bad="""\
from trl import GRPOConfig, GRPOTrainer

args = GRPOConfig("out", max_prompt_length=512)
trainer = GRPOTrainer(model, reward_funcs=reward, args=args, train_dataset=dataset, processing_class=tokenizer)
print("prompts of", args.max_prompt_length, "tokens")
""",
            good="""\
from trl import GRPOConfig, GRPOTrainer
from memlint_runtime import truncate_text

args = GRPOConfig("out")
trainer = GRPOTrainer(model, reward_funcs=reward, args=args, train_dataset=dataset.map(truncate_text, fn_kwargs={"tokenizer": tokenizer, "max_length": 512}), processing_class=tokenizer)
print("prompts of", 512, "tokens")
""",
        ),
        Example(
            title="a trainer whose arguments are in a dictionary",
            bad="""\
from trl import DPOConfig, DPOTrainer

args = DPOConfig("out", max_prompt_length=512)
parts = {
    "model": model,
    "args": args,
    "train_dataset": data["train"],
    "eval_dataset": data["test"],
    "processing_class": tokenizer,
}
trainer = DPOTrainer(**parts)
""",
            good="""\
from trl import DPOConfig, DPOTrainer
from memlint_runtime import truncate_text

args = DPOConfig("out")
parts = {
    "model": model,
    "args": args,
    "train_dataset": data["train"].map(truncate_text, fn_kwargs={"tokenizer": tokenizer, "max_length": 512}),
    "eval_dataset": data["test"].map(truncate_text, fn_kwargs={"tokenizer": tokenizer, "max_length": 512}),
    "processing_class": tokenizer,
}
trainer = DPOTrainer(**parts)
""",
        ),
        Example(
            title="arguments that another function makes",
            findings=3,
            bad="""\
from trl import SFTTrainer

def make(model, args, tokenizer, length):
    return SFTTrainer(
        model,
        args=args,
        max_seq_length=length,
        packing=True,
        tokenizer=tokenizer,
    )
""",
            good="""\
from trl import SFTConfig, SFTTrainer
from memlint_runtime import extend_arguments

def make(model, args, tokenizer, length):
    return SFTTrainer(
        model,
        args=extend_arguments(args, SFTConfig, max_length=length, packing=True),
        processing_class=tokenizer,
    )
""",
        ),
        Example(
            title="arguments of TRL's own from the command line",
            findings=2,
            bad="""\
from trl import SFTConfig, SFTTrainer, TrlParser

(args,) = TrlParser(SFTConfig).parse_args_and_config()
args.max_seq_length = 4096
trainer = SFTTrainer("Qwen/Qwen3-0.6B", args=args, train_dataset=dataset, dataset_text_field="body")
""",
            good="""\
from trl import SFTConfig, SFTTrainer, TrlParser

(args,) = TrlParser(SFTConfig).parse_args_and_config()
args.max_length = 4096
args.dataset_text_field = "body"
trainer = SFTTrainer("Qwen/Qwen3-0.6B", args=args, train_dataset=dataset)
""",
        ),
        Example(
            title="responses found by what stands before them",
            bad="""\
from trl import SFTTrainer, DataCollatorForCompletionOnlyLM

collator = DataCollatorForCompletionOnlyLM("### Answer:", tokenizer=tokenizer)
trainer = SFTTrainer(model, train_dataset=dataset, data_collator=collator)
""",
            good="""\
from trl import SFTTrainer
from memlint_runtime import DataCollatorForCompletionOnlyLM

collator = DataCollatorForCompletionOnlyLM("### Answer:", tokenizer=tokenizer)
trainer = SFTTrainer(model, train_dataset=dataset, data_collator=collator)
""",
        ),
        Example(
            title="a chat format for a base model",
            bad="""\
import trl

model, tokenizer = trl.setup_chat_format(model, tokenizer)
trainer = trl.SFTTrainer(model, train_dataset=dataset, processing_class=tokenizer)
""",
            good="""\
import trl
from memlint_runtime import setup_chat_format

model, tokenizer = setup_chat_format(model, tokenizer)
trainer = trl.SFTTrainer(model, train_dataset=dataset, processing_class=tokenizer)
""",
        ),
        Example(
            title="options that are made of a recipe",
            findings=2,
            bad="""\
from transformers import TrainingArguments

def arguments(recipe):
    options = {
        "output_dir": "out",
        "warmup_ratio": float(recipe["warmup_ratio"]),
        "logging_dir": str(recipe["logs"]),
    }
    return TrainingArguments(**options)
""",
            good="""\
from transformers import TrainingArguments
from os import environ

def arguments(recipe):
    environ["TENSORBOARD_LOGGING_DIR"] = str(recipe["logs"])
    options = {
        "output_dir": "out",
        "warmup_steps": float(recipe["warmup_ratio"]),
    }
    return TrainingArguments(**options)
""",
        ),
        Example(
            title="a class with other defaults",
            bad="""\
from transformers import AdamW

optimizer = AdamW(model.parameters(), lr=1e-4, correct_bias=True)
""",
            good="""\
from torch.optim import AdamW

optimizer = AdamW(model.parameters(), lr=1e-4, eps=1e-6, weight_decay=0.0)
""",
        ),
        Example(
            title="methods of tokenizers",
            findings=2,
            bad="""\
from transformers import AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
one = tokenizer.encode_plus(text, return_tensors="pt")
many = tokenizer.batch_encode_plus(batch_text_or_text_pairs=texts, padding=True)
""",
            good="""\
from transformers import AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
one = tokenizer(text, return_tensors="pt")
many = tokenizer(text=texts, padding=True)
""",
        ),
        Example(
            title="known only when the trainer is made",
            bad="""\
from trl import SFTConfig, SFTTrainer

args = SFTConfig("out")
limit = longest(dataset)
trainer = SFTTrainer(model, args=args, train_dataset=dataset, max_seq_length=limit)
""",
            good="""\
from trl import SFTConfig, SFTTrainer

args = SFTConfig("out")
limit = longest(dataset)
args.max_length = limit
trainer = SFTTrainer(model, args=args, train_dataset=dataset)
""",
        ),
        Example(
            title="options that are read",
            findings=3,
            bad="""\
from transformers import TrainingArguments

args = TrainingArguments("out", evaluation_strategy="no")
if args.group_by_length and not args.no_cuda:
    print("sorted")
""",
            good="""\
from transformers import TrainingArguments

args = TrainingArguments("out", eval_strategy="no")
if args.train_sampling_strategy == "group_by_length" and not args.use_cpu:
    print("sorted")
""",
        ),
        Example(
            title="targets",
            bad="""\
from transformers import AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("t5-small")

def tokenized(rows):
    inputs = tokenizer(rows["text"], truncation=True)
    with tokenizer.as_target_tokenizer():
        labels = tokenizer(
            rows["summary"],
            max_length=64,
            truncation=True,
        )
    inputs["labels"] = labels["input_ids"]
    return inputs
""",
            good="""\
from transformers import AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("t5-small")

def tokenized(rows):
    inputs = tokenizer(rows["text"], truncation=True)
    labels = tokenizer(
        text_target=rows["summary"],
        max_length=64,
        truncation=True,
    )
    inputs["labels"] = labels["input_ids"]
    return inputs
""",
        ),
        Example(
            title="targets, more than one",
            bad="""\
from transformers import AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("t5-small")
with tokenizer.as_target_tokenizer():
    print(tokenizer(["one", "two"]))
    labels = tokenizer(targets, **options)
""",
            good="""\
from transformers import AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("t5-small")
print(tokenizer(text_target=["one", "two"]))
labels = tokenizer(text_target=targets, **options)
""",
        ),
        Example(
            title="a folder that may be None",
            bad="""\
import os
from transformers import TrainingArguments

args = TrainingArguments("out", logging_dir=options.logs)
""",
            good="""\
import os
from transformers import TrainingArguments

if options.logs is not None:
    os.environ["TENSORBOARD_LOGGING_DIR"] = str(options.logs)
args = TrainingArguments("out")
""",
        ),
        Example(
            title="a program that reports its errors",
            bad="""\
from transformers import TrainingArguments

try:
    print("starting")
    print("reading options")
    print("making arguments")
    args = TrainingArguments("out", evaluation_strategy="no")
except Exception as error:
    print(error)
""",
            good="""\
from transformers import TrainingArguments

try:
    print("starting")
    print("reading options")
    print("making arguments")
    args = TrainingArguments("out", eval_strategy="no")
except Exception as error:
    print(error)
""",
        ),
        Example(
            title="imported and never used",
            bad="""\
from trl import SFTConfig, setup_chat_format

args = SFTConfig("out")
""",
            good="""\
from trl import SFTConfig

args = SFTConfig("out")
""",
        ),
        Example(
            title="an override that gets more than it takes",
            bad="""\
from transformers import Trainer

class Weighted(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False):
        outputs = model(**inputs)
        return (outputs.loss, outputs) if return_outputs else outputs.loss
""",
            good="""\
from transformers import Trainer

class Weighted(Trainer):
    loss_is_scaled_for_ga = False
    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        outputs = model(**inputs)
        return (outputs.loss, outputs) if return_outputs else outputs.loss
""",
        ),
        Example(
            title="texts of many rows",
            bad="""\
from trl import SFTTrainer

def texts(rows):
    made = []
    for i in range(len(rows["question"])):
        made.append(f"{rows['question'][i]} {rows['answer'][i]}")
    return made

trainer = SFTTrainer(model, train_dataset=dataset, formatting_func=texts)
""",
            good="""\
from trl import SFTTrainer

def texts(rows):
    made = []
    for i in range(len(rows["question"])):
        made.append(f"{rows['question'][i]} {rows['answer'][i]}")
    return made

trainer = SFTTrainer(model, train_dataset=dataset, formatting_func=lambda row: texts({name: [value] for name, value in row.items()})[0])
""",
        ),
        Example(
            title="the first row of a thousand",
            bad="""\
from trl import SFTTrainer

def quote(rows):
    text = f"Quote: {rows['quote'][0]}"
    return [text]

trainer = SFTTrainer(model, train_dataset=dataset, formatting_func=quote)
""",
            good="""\
from trl import SFTTrainer

def quote(rows):
    text = f"Quote: {rows['quote'][0]}"
    return [text]

trainer = SFTTrainer(model, train_dataset=dataset, formatting_func=lambda row: quote({name: [value] for name, value in row.items()})[0])
""",
        ),
        Example(
            title="for an older version",
            target="trl=0.15,transformers=4.48",
            bad="""\
from trl import SFTConfig, SFTTrainer

trainer = SFTTrainer(model, args=SFTConfig("out"), max_seq_length=2048)
""",
            good="""\
from trl import SFTConfig, SFTTrainer

trainer = SFTTrainer(model, args=SFTConfig("out", max_seq_length=2048))
""",
        ),
        Example(
            title="a flag that a command line may turn on",
            bad="""\
import argparse
from transformers import AutoModelForCausalLM

parser = argparse.ArgumentParser()
parser.add_argument("--load_8bit", action="store_true", default=False)
args = parser.parse_args()
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", load_in_8bit=args.load_8bit)
""",
            good="""\
import argparse
from transformers import AutoModelForCausalLM, BitsAndBytesConfig

parser = argparse.ArgumentParser()
parser.add_argument("--load_8bit", action="store_true", default=False)
args = parser.parse_args()
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", quantization_config=BitsAndBytesConfig(load_in_8bit=args.load_8bit) if args.load_8bit else None)
""",
        ),
    ),
    clean=(
        # Fields of the script's own class, with names that its base once had.
        """\
import trl
from transformers import HfArgumentParser


class Config(trl.DPOConfig):
    max_prompt_length: int = 512


class More(Config):
    beta: float = 0.2


(args,) = HfArgumentParser((Config,)).parse_args_into_dataclasses()
more = More(output_dir="out", max_prompt_length=128)
""",
        # The script minds the version itself.
        """\
try:
    from trl import setup_chat_format
except ImportError:
    setup_chat_format = None
""",
        """\
import inspect
from transformers import TrainingArguments

name = "evaluation_strategy"
if name not in inspect.signature(TrainingArguments).parameters:
    name = "eval_strategy"
args = TrainingArguments("out", **{name: "epoch"})
""",
        # Taken, among ``**kwargs``, though no signature names it.
        """\
from transformers import PretrainedConfig

config = PretrainedConfig(num_labels=3)
""",
        # A few lines that try the new name first.
        """\
from transformers import TrainingArguments

try:
    args = TrainingArguments("out", eval_strategy="no")
except TypeError:
    args = TrainingArguments("out", evaluation_strategy="no")
""",
        # Set for a trainer of the project's own, which may read it.
        """\
from trl import GRPOConfig
from project.trainer import PairwiseTrainer

args = GRPOConfig("out")
args.max_prompt_length = 512
trainer = PairwiseTrainer(model=model, args=args, train_dataset=dataset)
print(args.max_prompt_length)
""",
        # The trainer's own limit.
        """\
from trl import GRPOTrainer

class Paired(GRPOTrainer):
    def __init__(self, *args, limit, **kwargs):
        super().__init__(*args, **kwargs)
        self.max_prompt_length = limit

    def cut(self, ids):
        return ids[:, -self.max_prompt_length :]
""",
        # One text of one row.
        """\
from trl import SFTTrainer

def text(row):
    parts = [row["question"], row["answer"]]
    for part in row["more"]:
        parts.append(part)
    return " ".join(parts)

trainer = SFTTrainer(model, train_dataset=dataset, formatting_func=text)
""",
        # Mended already.
        """\
from memlint_runtime import DataCollatorForCompletionOnlyLM, extend_arguments, setup_chat_format
from trl import SFTConfig, SFTTrainer

def make(model, tokenizer, args):
    model, tokenizer = setup_chat_format(model, tokenizer)
    return SFTTrainer(
        model,
        args=extend_arguments(args, SFTConfig, max_length=2048),
        data_collator=DataCollatorForCompletionOnlyLM("### Answer:", tokenizer=tokenizer),
        processing_class=tokenizer,
    )
""",
        # A class of the same name from elsewhere, and a dataclass of the script's own.
        """\
from dataclasses import dataclass
from setfit import Trainer

@dataclass
class Options:
    warmup_ratio: float = 0.1

trainer = Trainer(model=model, tokenizer=tokenizer, evaluation_strategy="no")
options = Options(warmup_ratio=0.2)
""",
    ),
)
