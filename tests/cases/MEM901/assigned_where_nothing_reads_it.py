from transformers import Trainer, TrainingArguments
from trl import SFTConfig, SFTTrainer


def options():
    made = TrainingArguments("out")
    made.warmup_ratio = 0.1  # expect: MEM901
    return made


Trainer(model=model, args=options(), train_dataset=dataset).train()
args = SFTConfig("out")
args.max_seq_length = 512  # expect: MEM901
args.overwrite_output_dir = True  # expect: MEM901
short = dataset.filter(lambda row: len(row["text"]) < args.max_seq_length)
SFTTrainer(model, args=args, train_dataset=short).train()
