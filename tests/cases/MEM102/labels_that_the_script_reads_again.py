# about: Labels that the collator makes anew, but the script reads: another collator pads them.
from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer
from transformers import DataCollatorForLanguageModeling, TrainingArguments

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")


def encode(row):
    row = tokenizer(row["text"], truncation=True, max_length=512, padding="max_length")  # expect: MEM102
    row["labels"] = row["input_ids"].copy()
    return row


rows = load_dataset("imdb", split="train").map(encode)
print(rows[0]["labels"])
Trainer(
    AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B"),
    TrainingArguments("out"),
    train_dataset=rows,
    data_collator=DataCollatorForLanguageModeling(tokenizer, mlm=False),
).train()
