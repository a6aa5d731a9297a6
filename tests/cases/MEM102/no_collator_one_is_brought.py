from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    Trainer,
    TrainingArguments,
)

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")


def tokenize(example):
    tokens = tokenizer(example["text"], padding="max_length", truncation=True, max_length=256)  # expect: MEM102
    return {**tokens, "labels": tokens["input_ids"]}


trainer = Trainer(
    model=AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B"),
    args=TrainingArguments("out"),
    train_dataset=dataset.map(tokenize),
)
