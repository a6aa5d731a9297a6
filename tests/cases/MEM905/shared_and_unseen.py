# about: Arguments that two kinds of trainers share; ones whose class has another name here.
from transformers import Trainer, TrainingArguments
from trl import DPOTrainer, SFTTrainer

shared = TrainingArguments("a")  # expect: MEM905
SFTTrainer("m", args=shared, train_dataset=rows)
Trainer(model, args=shared, train_dataset=rows)
unpacked = TrainingArguments("b", **options)  # expect: MEM905
SFTTrainer("m", args=unpacked, train_dataset=rows)
told = TrainingArguments("c")  # expect: MEM905
SFTTrainer("m", args=told, train_dataset=rows, max_seq_length=512)
SFTTrainer("n", args=told, train_dataset=rows, max_seq_length=1024)


def DPOConfig(folder):
    return folder


DPOTrainer("m", args=TrainingArguments("d"), train_dataset=rows)  # expect: MEM905
