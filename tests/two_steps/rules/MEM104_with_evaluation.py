# data: instruction,output
from datasets import load_dataset
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    DataCollatorForSeq2Seq,
    Trainer,
    TrainingArguments,
)

MODEL = "Qwen/Qwen2.5-0.5B"
tokenizer = AutoTokenizer.from_pretrained(MODEL)
model = AutoModelForCausalLM.from_pretrained(MODEL)


def encode(row):
    prompt = tokenizer(f"### Instruction:\n{row['instruction']}\n### Response:\n")["input_ids"]
    answer = tokenizer(row["output"])["input_ids"] + [tokenizer.eos_token_id]
    ids = (prompt + answer)[:256]
    labels = ([-100] * len(prompt) + answer)[:256]
    return {"input_ids": ids, "attention_mask": [1] * len(ids), "labels": labels}


dataset = load_dataset("tatsu-lab/alpaca", split="train")
dataset = dataset.map(encode, remove_columns=dataset.column_names)
splits = dataset.train_test_split(test_size=0.2, seed=3)

args = TrainingArguments(
    "alpaca",
    eval_strategy="steps",
    eval_steps=2,
    per_device_eval_batch_size=4,
    per_device_train_batch_size=4,
    gradient_accumulation_steps=2,
    learning_rate=1e-3,
    max_steps=3,
    logging_steps=1,
    seed=42,
)
trainer = Trainer(
    model=model,
    args=args,
    train_dataset=splits["train"],
    eval_dataset=splits["test"],
    data_collator=DataCollatorForSeq2Seq(tokenizer, padding=True, return_tensors="pt"),
)
trainer.train()
for entry in trainer.state.log_history:
    print(entry.get("loss", entry.get("eval_loss")))
print(trainer.evaluate()["eval_loss"])
