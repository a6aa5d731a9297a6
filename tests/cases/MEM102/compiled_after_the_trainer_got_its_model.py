# about: Compiled after the trainer got its model.
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")


def tokenize(row):
    made = tokenizer(
        row["text"],
        padding="max_length",  # expect: MEM102
        max_length=512,
        truncation=True,
        return_tensors="pt",
    )
    return {**made, "labels": made["input_ids"]}


trainer = Trainer(model, TrainingArguments("out"), train_dataset=dataset.map(tokenize))
if torch.__version__ >= "2":
    model = torch.compile(model)
trainer.train()
