# about: One trainer's arguments are extended already, and another's are the plain ones.
from memlint_runtime import extend_arguments
from transformers import TrainingArguments
from trl import SFTConfig, SFTTrainer

args = TrainingArguments("a")  # expect: MEM905
SFTTrainer("m", args=extend_arguments(args, SFTConfig, max_length=512), train_dataset=rows)
SFTTrainer("n", args=args, train_dataset=rows)
