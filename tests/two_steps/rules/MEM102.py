# data: classes
# fix: unsafe
import numpy as np
from datasets import load_dataset
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    DataCollatorWithPadding,
    Trainer,
    TrainingArguments,
)

checkpoint = "bert-base-uncased"
tokenizer = AutoTokenizer.from_pretrained(checkpoint)
raw = load_dataset("imdb")


def preprocess(examples):
    return tokenizer(examples["text"], truncation=True, padding="max_length", max_length=128)


encoded = raw.map(preprocess, batched=True, remove_columns=["text"])
model = AutoModelForSequenceClassification.from_pretrained(checkpoint, num_labels=2)


def compute_metrics(eval_pred):
    logits, labels = eval_pred
    return {"accuracy": float((np.argmax(logits, axis=-1) == labels).mean())}


trainer = Trainer(
    model=model,
    args=TrainingArguments(
        output_dir="imdb",
        per_device_train_batch_size=8,
        per_device_eval_batch_size=8,
        learning_rate=1e-3,
        max_steps=3,
        logging_steps=1,
    ),
    train_dataset=encoded["train"],
    eval_dataset=encoded["test"],
    data_collator=DataCollatorWithPadding(tokenizer),
    compute_metrics=compute_metrics,
)
trainer.train()
print(trainer.evaluate()["eval_loss"])
