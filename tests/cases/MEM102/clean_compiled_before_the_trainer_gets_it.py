# about: Compiled before the trainer gets it.
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")


def tokenize(row):
    made = tokenizer(row["text"], padding="max_length", max_length=512, truncation=True)
    return {**made, "labels": made["input_ids"]}


model = torch.compile(model)
trainer = Trainer(model, TrainingArguments("out"), train_dataset=dataset.map(tokenize))
trainer.train()
