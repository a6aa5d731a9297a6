# fix: unsafe
"""Full fine-tune of a small model on raw documents."""

from datasets import load_dataset
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    DataCollatorForLanguageModeling,
    Trainer,
    TrainingArguments,
    set_seed,
)

set_seed(42)
MODEL = "Qwen/Qwen3-0.6B"

tokenizer = AutoTokenizer.from_pretrained(MODEL)
model = AutoModelForCausalLM.from_pretrained(MODEL)

dataset = load_dataset("roneneldan/TinyStories", split="train")


def tokenize(rows):
    return tokenizer(rows["text"])


tokenized = dataset.map(tokenize, batched=True, remove_columns=dataset.column_names)

args = TrainingArguments(
    output_dir="stories",
    per_device_train_batch_size=4,
    learning_rate=1e-3,
    max_steps=3,
    logging_steps=1,
    report_to="none",
)
trainer = Trainer(
    model=model,
    args=args,
    train_dataset=tokenized,
    data_collator=DataCollatorForLanguageModeling(tokenizer, mlm=False),
)
trainer.train()
print([entry["loss"] for entry in trainer.state.log_history if "loss" in entry])
