# about: A helper has padded all rows to the longest of them.
from datasets import Dataset
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    DataCollatorForSeq2Seq,
    Trainer,
    TrainingArguments,
)

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")


def encode(texts, to_ids, longest):
    ids = to_ids(texts, truncation=True, max_length=longest, padding=True)["input_ids"]
    return Dataset.from_dict({"input_ids": ids, "labels": ids})


model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
trainer = Trainer(
    model,
    TrainingArguments("out", per_device_train_batch_size=8),
    train_dataset=encode(texts, tokenizer, 256),
    data_collator=DataCollatorForSeq2Seq(tokenizer),
)
trainer.train()
