import sys

from transformers import HfArgumentParser, TrainingArguments
from trl import SFTConfig, SFTTrainer, DPOTrainer
from memlint_runtime import extend_arguments

limits = {"max_seq_length": 512}
SFTTrainer("a", train_dataset=rows, **limits)
SFTTrainer("b", args=make(), train_dataset=rows, **limits)
known = SFTConfig("c")


def train(size, args: SFTConfig):
    modules = [1, 2]
    SFTTrainer("d", args=extend_arguments(args, SFTConfig, max_length=size), train_dataset=rows)
    known.max_length = size
    SFTTrainer("e", args=known, train_dataset=rows)
    return SFTTrainer("f", args=None, train_dataset=rows, max_seq_length=size)


(plain, other) = HfArgumentParser((TrainingArguments, Extra)).parse_args_into_dataclasses()
SFTTrainer("g", args=SFTConfig(**{**plain.to_dict(), "hub_token": plain.hub_token}, max_length=other.size), train_dataset=rows)
SFTTrainer("h", args=plain, train_dataset=rows, packing=other.packing, **limits)
trainer = DPOTrainer("i", args=[plain][0], train_dataset=rows, max_length=12, beta=0.1)
