from datasets import load_dataset
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    DataCollatorForSeq2Seq,
    Trainer,
    TrainingArguments,
    default_data_collator,
)

tokenizer = AutoTokenizer.from_pretrained("bert-base-uncased")
model = AutoModelForSequenceClassification.from_pretrained("bert-base-uncased")
rows = load_dataset("imdb", split="train")


def tokenize(batch):
    return tokenizer(batch["text"], padding="max_length", truncation=True, max_length=512)


rows = rows.map(tokenize, batched=True)
args = TrainingArguments("out", per_device_train_batch_size=8)
def cut_padding(rows, collate=DataCollatorForSeq2Seq(tokenizer, padding="max_length")):
    batch = collate(rows)
    kept = batch["attention_mask"].bool().any(dim=0)
    cut = {name: batch[name][:, kept] for name in ("input_ids", "attention_mask", "token_type_ids") if name in batch}
    batch.update(cut)
    return batch

Trainer(model, args, train_dataset=rows, data_collator=cut_padding).train()
