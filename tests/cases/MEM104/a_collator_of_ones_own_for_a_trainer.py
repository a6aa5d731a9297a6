import torch
from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer, TrainingArguments

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")


def prepare(row):
    return {"input_ids": tokenizer(row["text"], truncation=True, max_length=2048)["input_ids"]}


def together(items):
    longest = max(len(item["input_ids"]) for item in items)
    ids = [item["input_ids"] + [0] * (longest - len(item["input_ids"])) for item in items]
    return {"input_ids": torch.tensor(ids), "labels": torch.tensor(ids)}


rows = load_dataset("imdb", split="train").map(prepare, remove_columns=["text", "label"])
args = TrainingArguments("out", per_device_train_batch_size=4)
trainer = Trainer(model, args, train_dataset=rows, data_collator=together)  # expect: MEM104
trainer.train()
