# about: Compiled for one shape.
from transformers import AutoTokenizer, Trainer, TrainingArguments

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")


def tokenize(row):
    return tokenizer(row["text"], padding="max_length", max_length=512, truncation=True)


args = TrainingArguments("out", torch_compile=True)
Trainer(model, args, train_dataset=dataset.map(tokenize)).train()
