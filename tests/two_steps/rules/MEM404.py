# data: classes
# fix: unsafe
# stand-in: TF32 is allowed, as on an Ampere GPU
from datasets import load_dataset
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    DataCollatorForLanguageModeling,
    Trainer,
    TrainingArguments,
)

model_name = "Qwen/Qwen2.5-0.5B"
tokenizer = AutoTokenizer.from_pretrained(model_name)
model = AutoModelForCausalLM.from_pretrained(model_name, dtype="float32")
dataset = load_dataset("imdb", split="train")
dataset = dataset.map(
    lambda rows: tokenizer(rows["text"], truncation=True, max_length=128),
    batched=True,
    remove_columns=dataset.column_names,
)
trainer = Trainer(
    model=model,
    args=TrainingArguments(
        output_dir="imdb-lm",
        per_device_train_batch_size=8,
        bf16=False,
        fp16=False,
        learning_rate=1e-3,
        max_steps=3,
        logging_steps=1,
    ),
    train_dataset=dataset,
    data_collator=DataCollatorForLanguageModeling(tokenizer, mlm=False),
)
trainer.train()
print([entry["loss"] for entry in trainer.state.log_history if "loss" in entry])
