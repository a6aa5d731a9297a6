from datasets import load_dataset
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    Trainer,
    TrainingArguments,
    default_data_collator,
)

LIMIT = 1024
words = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")


def encode(row):
    ids = words(row["text"], truncation=True, max_length=LIMIT)["input_ids"]
    missing = max(0, LIMIT - len(ids))
    return {
        "input_ids": ids + [words.pad_token_id] * missing,
        "attention_mask": [1] * len(ids) + [0] * missing,
        "labels": ids + [-100] * missing,
    }


rows = load_dataset("imdb", split="train").map(encode)
args = TrainingArguments("out", per_device_train_batch_size=8)
def cut_padding(rows, collate=default_data_collator):
    batch = collate(rows)
    kept = batch["attention_mask"].bool().any(dim=0)
    cut = {name: batch[name][:, kept] for name in ("input_ids", "attention_mask", "labels") if name in batch}
    batch.update(cut)
    return batch

Trainer(model, args, train_dataset=rows, data_collator=cut_padding).train()
