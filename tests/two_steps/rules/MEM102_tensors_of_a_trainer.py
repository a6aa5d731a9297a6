# data: text
# fix: unsafe
"""Rows are tensors of one length: a collator cuts off what is padding in its whole batch."""

from datasets import load_dataset
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    DataCollatorForLanguageModeling,
    Trainer,
    TrainingArguments,
)

MODEL = "Qwen/Qwen3-0.6B"
tokenizer = AutoTokenizer.from_pretrained(MODEL)


def prepare(rows):
    words = tokenizer(
        rows["text"], padding="max_length", max_length=128, truncation=True, return_tensors="pt"
    )
    words["labels"] = words["input_ids"].clone()
    return words


rows = load_dataset("imdb", split="train")
rows = rows.map(prepare, batched=True, remove_columns=rows.column_names)
trainer = Trainer(
    model=AutoModelForCausalLM.from_pretrained(MODEL),
    args=TrainingArguments("out", max_steps=3, per_device_train_batch_size=2, logging_steps=1),
    train_dataset=rows,
    eval_dataset=rows,
    data_collator=DataCollatorForLanguageModeling(tokenizer, mlm=False),
)
trainer.train()
print(trainer.evaluate()["eval_loss"])
