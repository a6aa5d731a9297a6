from datasets import load_dataset
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    DataCollatorForSeq2Seq,
    Trainer,
)
from transformers import TrainingArguments

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")


def encode(row):
    row = tokenizer(row["text"], truncation=True, max_length=512)
    row["labels"] = row["input_ids"].copy()
    return row


rows = load_dataset("imdb", split="train").map(encode)
print(rows[0]["labels"])
Trainer(
    AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B"),
    TrainingArguments("out"),
    train_dataset=rows,
    data_collator=DataCollatorForSeq2Seq(tokenizer),
).train()
