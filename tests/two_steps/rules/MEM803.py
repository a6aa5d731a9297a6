# data: classes
# fix: unsafe
from datasets import load_dataset
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    DataCollatorWithPadding,
    Trainer,
    TrainingArguments,
)

tokenizer = AutoTokenizer.from_pretrained("distilbert-base-uncased")
model = AutoModelForSequenceClassification.from_pretrained("distilbert-base-uncased", num_labels=2)
data = load_dataset("imdb", split="train").map(
    lambda rows: tokenizer(rows["text"], truncation=True, max_length=100),
    batched=True,
    remove_columns=["text"],
)
trainer = Trainer(
    model=model,
    args=TrainingArguments(
        output_dir="imdb",
        per_device_train_batch_size=10,
        learning_rate=1e-3,
        max_steps=3,
        logging_steps=1,
    ),
    train_dataset=data,
    data_collator=DataCollatorWithPadding(tokenizer),
)
trainer.train()
print([entry["loss"] for entry in trainer.state.log_history if "loss" in entry])
