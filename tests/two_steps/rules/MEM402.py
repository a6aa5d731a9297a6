# data: instruction,output
# fix: unsafe
from datasets import load_dataset
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    DataCollatorForSeq2Seq,
    Trainer,
    TrainingArguments,
)

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-1.5B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-1.5B", dtype="float32")


def tokenize(row):
    encoded = tokenizer(row["instruction"] + row["output"], truncation=True, max_length=128)
    return {**encoded, "labels": encoded["input_ids"].copy()}


dataset = load_dataset("tatsu-lab/alpaca", split="train")
dataset = dataset.map(tokenize, remove_columns=dataset.column_names)
trainer = Trainer(
    model,
    TrainingArguments(
        "alpaca-1.5b",
        per_device_train_batch_size=4,
        learning_rate=1e-3,
        num_train_epochs=1,
        max_steps=3,
        logging_steps=1,
    ),
    train_dataset=dataset,
    data_collator=DataCollatorForSeq2Seq(tokenizer),
)
trainer.train()
print([entry["loss"] for entry in trainer.state.log_history if "loss" in entry])
