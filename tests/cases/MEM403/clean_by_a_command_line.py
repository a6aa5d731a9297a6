import argparse

from transformers import Trainer, TrainingArguments

parser = argparse.ArgumentParser()
parser.add_argument("--fp16", default=True)
flags = parser.parse_args()
args = TrainingArguments("out", fp16=flags.fp16)
Trainer(model, args, train_dataset=rows).train()
