from transformers import Trainer, TrainingArguments
from trl import SFTConfig, SFTTrainer


def options():
    made = TrainingArguments("out")
    made.warmup_steps = 0.1
    return made


Trainer(model=model, args=options(), train_dataset=dataset).train()
args = SFTConfig("out")
args.max_length = 512
short = dataset.filter(lambda row: len(row["text"]) < args.max_length)
SFTTrainer(model, args=args, train_dataset=short).train()
