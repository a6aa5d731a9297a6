# about: Compiled after two trainers got it.
from torch import compile as faster
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


first = Trainer(model, TrainingArguments("one"), train_dataset=short.map(tokenize))
second = Trainer(model, TrainingArguments("two"), train_dataset=long.map(tokenize))
model = faster(model, mode="max-autotune")
first.train()
second.train()
