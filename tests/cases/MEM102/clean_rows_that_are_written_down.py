from datasets import Dataset
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    DataCollatorForLanguageModeling,
    Trainer,
    TrainingArguments,
)

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")

short = []
for line in open("notes.txt"):
    short.append(tokenizer(line, padding="max_length", max_length=512))
Dataset.from_list(short).save_to_disk("notes")
rows = Dataset.from_dict({"text": stories})

Trainer(
    model,
    TrainingArguments("out"),
    train_dataset=rows,
    data_collator=DataCollatorForLanguageModeling(tokenizer, mlm=False),
).train()
