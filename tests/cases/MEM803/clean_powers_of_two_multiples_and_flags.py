import argparse

from transformers import DataCollatorWithPadding, Trainer, TrainingArguments

parser = argparse.ArgumentParser()
parser.add_argument("--rows", type=int, default=10)
flags = parser.parse_args()
collator = DataCollatorWithPadding(tokenizer, pad_to_multiple_of=64)
for rows in (1, 2, 4, 24):
    args = TrainingArguments("out", per_device_train_batch_size=rows)
    Trainer(model, args, train_dataset=data, data_collator=collator).train()
args = TrainingArguments("out", per_device_train_batch_size=4)
Trainer(model, args, train_dataset=data).train()
args = TrainingArguments("out", per_device_train_batch_size=flags.rows)
Trainer(model, args, train_dataset=data).train()
