from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer, TrainingArguments

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-1.5B")
rows = load_dataset("org/rows", split="train").map(lambda row: tokenizer(row["text"], truncation=True))
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-1.5B", dtype="bfloat16")
Trainer(model, TrainingArguments("out", bf16=True), train_dataset=rows).train()
