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


def stories():
    for line in open("stories.txt"):
        yield tokenizer(line, padding="max_length", max_length=512)  # expect: MEM102


short = []
for line in open("notes.txt"):
    short.append(tokenizer(line, padding="max_length", max_length=512))  # expect: MEM102
rows = Dataset.from_generator(stories)
Trainer(model, TrainingArguments("out"), train_dataset=short).train()

Trainer(
    model,
    TrainingArguments("out"),
    train_dataset=rows,
    data_collator=DataCollatorForLanguageModeling(tokenizer, mlm=False),
).train()
