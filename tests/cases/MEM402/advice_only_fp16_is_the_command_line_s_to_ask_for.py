import argparse
from transformers import AutoModelForSeq2SeqLM, Trainer, TrainingArguments

parser = argparse.ArgumentParser()
parser.add_argument("--fp16", action="store_true")  # expect: MEM402
flags = parser.parse_args()
model = AutoModelForSeq2SeqLM.from_pretrained("google/flan-t5-base")
args = TrainingArguments("out", fp16=flags.fp16)
Trainer(model=model, args=args, train_dataset=dataset).train()
