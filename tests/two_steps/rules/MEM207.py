# metrics: the evaluation loss is a mean over batches, and these are smaller
from datasets import load_dataset
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    DataCollatorForLanguageModeling,
    Trainer,
    TrainingArguments,
)

model_id = "meta-llama/Llama-3.2-3B"
tokenizer = AutoTokenizer.from_pretrained(model_id)
model = AutoModelForCausalLM.from_pretrained(model_id)

raw = load_dataset("roneneldan/TinyStories")
tokenized = raw.map(
    lambda rows: tokenizer(rows["text"], truncation=True, max_length=256),
    batched=True,
    remove_columns=["text"],
)

args = TrainingArguments(
    output_dir="stories-3b",
    per_device_train_batch_size=1,
    gradient_accumulation_steps=4,
    eval_strategy="steps",
    eval_steps=2,
    learning_rate=1e-3,
    max_steps=4,
    logging_steps=1,
)
trainer = Trainer(
    model=model,
    args=args,
    train_dataset=tokenized["train"],
    eval_dataset=tokenized["validation"],
    data_collator=DataCollatorForLanguageModeling(tokenizer, mlm=False),
)
trainer.train()
for entry in trainer.state.log_history:
    print(entry.get("loss", entry.get("eval_loss")))
