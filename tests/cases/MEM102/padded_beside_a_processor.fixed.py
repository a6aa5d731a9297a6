from datasets import load_dataset
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    DataCollatorForSeq2Seq,
    DataCollatorWithPadding,
    Trainer,
    TrainingArguments,
)

tokenizer = AutoTokenizer.from_pretrained("bert-base-uncased")
model = AutoModelForSequenceClassification.from_pretrained("bert-base-uncased")
rows = load_dataset("imdb", split="train")


def tokenize(batch):
    return tokenizer(batch["text"], truncation=True, max_length=512)


rows = rows.map(tokenize, batched=True)
args = TrainingArguments("out", per_device_train_batch_size=8)
Trainer(
    model,
    args,
    train_dataset=rows,
    processing_class=tokenizer,
    data_collator=DataCollatorWithPadding(tokenizer),
).train()
