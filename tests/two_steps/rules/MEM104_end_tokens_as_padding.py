# fix: unsafe
from datasets import load_dataset
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    DataCollatorForLanguageModeling,
    Trainer,
    TrainingArguments,
)

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-0.5B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B")
dataset = load_dataset("wikitext", "wikitext-2-raw-v1", split="train")
dataset = dataset.map(
    lambda rows: tokenizer(rows["text"], truncation=True, max_length=128),
    batched=True,
    remove_columns=["text"],
)
trainer = Trainer(
    model=model,
    args=TrainingArguments("wiki", per_device_train_batch_size=8, max_steps=3, logging_steps=1),
    train_dataset=dataset,
    data_collator=DataCollatorForLanguageModeling(tokenizer=tokenizer, mlm=False),
)
trainer.train()
print([entry["loss"] for entry in trainer.state.log_history if "loss" in entry])
