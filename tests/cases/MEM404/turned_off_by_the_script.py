# about: what the script writes is a decision: advice only.
from transformers import AutoModelForSeq2SeqLM, Trainer, TrainingArguments

model = AutoModelForSeq2SeqLM.from_pretrained("google/flan-t5-base")
args = TrainingArguments("out", tf32=False)  # expect: MEM404
Trainer(model, args, train_dataset=rows).train()
