# data: instruction,output
import torch
from datasets import load_dataset
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    DataCollatorForSeq2Seq,
    Trainer,
    TrainingArguments,
)

MODEL = "Qwen/Qwen3-1.7B"
tokenizer = AutoTokenizer.from_pretrained(MODEL)
model = AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float32)


def to_features(row):
    prompt = tokenizer.encode(row["instruction"] + "\n")
    answer = tokenizer.encode(row["output"]) + [tokenizer.eos_token_id]
    return {"input_ids": prompt + answer, "labels": [-100] * len(prompt) + answer}


dataset = load_dataset("yahma/alpaca-cleaned", split="train")
splits = dataset.map(to_features, remove_columns=dataset.column_names).train_test_split(0.2, seed=1)

trainer = Trainer(
    model=model,
    args=TrainingArguments(
        output_dir="out",
        per_device_train_batch_size=4,
        per_device_eval_batch_size=4,
        gradient_accumulation_steps=2,
        eval_strategy="steps",
        eval_steps=2,
        learning_rate=1e-3,
        max_steps=4,
        logging_steps=1,
    ),
    train_dataset=splits["train"],
    eval_dataset=splits["test"],
    data_collator=DataCollatorForSeq2Seq(tokenizer),
)
trainer.train()
for entry in trainer.state.log_history:
    if "loss" in entry:
        print("train", entry["loss"])
    elif "eval_loss" in entry:
        print("eval", entry["eval_loss"])
