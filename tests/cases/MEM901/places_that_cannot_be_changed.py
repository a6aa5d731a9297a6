# about: What is unpacked, given twice in a row, or written where no line can stand before it.
import sys

from transformers import HfArgumentParser, TrainingArguments
from trl import SFTConfig, SFTTrainer, DPOTrainer

limits = {"max_seq_length": 512}  # expect: MEM901
SFTTrainer("a", train_dataset=rows, **limits)
SFTTrainer("b", args=make(), train_dataset=rows, **limits)
known = SFTConfig("c")


def train(size, args: SFTConfig):
    modules = [1, 2]
    SFTTrainer("d", args=args, train_dataset=rows, max_seq_length=size)  # expect: MEM901
    SFTTrainer("e", args=known, train_dataset=rows, max_seq_length=size)  # expect: MEM901
    return SFTTrainer("f", args=None, train_dataset=rows, max_seq_length=size)  # expect: MEM901


(plain, other) = HfArgumentParser((TrainingArguments, Extra)).parse_args_into_dataclasses()
SFTTrainer("g", args=plain, train_dataset=rows, max_seq_length=other.size)  # expect: MEM901
SFTTrainer("h", args=plain, train_dataset=rows, packing=other.packing, **limits)  # expect: MEM901
trainer = DPOTrainer("i", args=[plain][0], train_dataset=rows, max_length=12, beta=0.1)  # expect: MEM901, MEM901
