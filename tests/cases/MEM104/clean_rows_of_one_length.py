# about: Rows of one length.
from transformers import (
    AutoModelForCausalLM, DataCollatorForLanguageModeling, Trainer, TrainingArguments
)


def group_texts(examples):
    return blocks(examples)


model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
collator = DataCollatorForLanguageModeling(tokenizer, mlm=False)
trainer = Trainer(model, TrainingArguments("out"), data_collator=collator)
