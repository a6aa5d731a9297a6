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


def encode(texts, most=512):
    encoded = tokenizer(
        texts,
        truncation=True,
        max_length=most,
        padding="max_length",
        return_tensors="pt",
    )
    return Dataset.from_dict({"input_ids": encoded["input_ids"]})


rows = encode([story["text"] for story in stories])

Trainer(
    model,
    TrainingArguments("out"),
    eval_dataset=rows,
    data_collator=DataCollatorForLanguageModeling(tokenizer, mlm=False),
).train()
