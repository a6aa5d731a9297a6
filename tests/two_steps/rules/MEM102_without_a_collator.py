# data: classes
# fix: unsafe
from datasets import load_dataset
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    Trainer,
    TrainingArguments,
)

tokenizer = AutoTokenizer.from_pretrained("distilbert-base-uncased")


def tokenize_function(examples):
    return tokenizer(examples["text"], padding="max_length", truncation=True)


datasets = load_dataset("yelp_review_full").map(tokenize_function, batched=True)
model = AutoModelForSequenceClassification.from_pretrained("distilbert-base-uncased", num_labels=2)
trainer = Trainer(
    model=model,
    args=TrainingArguments("yelp", learning_rate=1e-3, max_steps=3, logging_steps=1),
    train_dataset=datasets["train"].shuffle(seed=42),
)
trainer.train()
print([entry["loss"] for entry in trainer.state.log_history if "loss" in entry])
