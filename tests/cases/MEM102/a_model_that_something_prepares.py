from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, DataCollatorForLanguageModeling
from transformers import Trainer, TrainingArguments

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
model = prepared(AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B"))


def encode(text):
    ids = tokenizer(text, truncation=True, max_length=512, padding="max_length")  # expect: MEM102
    ids["labels"] = ids["input_ids"].copy()
    return ids


def encode_row(row):
    return encode(row["text"])


rows = load_dataset("imdb", split="train").map(encode_row)
print(rows[0]["labels"])
Trainer(
    model,
    TrainingArguments("out"),
    train_dataset=rows,
    data_collator=DataCollatorForLanguageModeling(tokenizer, mlm=False),
).train()
