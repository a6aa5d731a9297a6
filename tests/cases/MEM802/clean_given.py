import argparse

from transformers import Trainer, TrainingArguments

parser = argparse.ArgumentParser()
parser.add_argument("--workers", type=int, default=0)
flags = parser.parse_args()
Trainer(model, TrainingArguments("out", dataloader_num_workers=4), train_dataset=rows).train()
Trainer(
    model, TrainingArguments("out", dataloader_num_workers=flags.workers), train_dataset=rows
).train()
