# about: Compiled, and put into the trainer.
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")


def tokenize(row):
    made = tokenizer(row["text"], padding="max_length", max_length=512, truncation=True)
    return {**made, "labels": made["input_ids"]}


trainer = Trainer(model, TrainingArguments("out"), train_dataset=dataset.map(tokenize))
trainer.model_wrapped = torch.compile(model)
trainer.train()
