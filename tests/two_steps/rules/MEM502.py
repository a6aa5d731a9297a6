from datasets import load_dataset
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    DataCollatorForLanguageModeling,
    Trainer,
    TrainingArguments,
)

MODEL = "Qwen/Qwen2.5-7B"
tokenizer = AutoTokenizer.from_pretrained(MODEL)
model = AutoModelForCausalLM.from_pretrained(MODEL)
data = load_dataset("roneneldan/TinyStories", split="train").map(
    lambda rows: tokenizer(rows["text"], truncation=True, max_length=1024),
    batched=True,
    remove_columns=["text"],
)
args = TrainingArguments(
    output_dir="stories-7b",
    per_device_train_batch_size=32,
    gradient_accumulation_steps=1,
    learning_rate=1e-3,
    max_steps=4,
    logging_steps=1,
)
trainer = Trainer(
    model=model,
    args=args,
    train_dataset=data,
    data_collator=DataCollatorForLanguageModeling(tokenizer, mlm=False),
)
trainer.train()
print([entry["loss"] for entry in trainer.state.log_history if "loss" in entry])
