# about: Each batch to its own longest already.
from transformers import AutoTokenizer, Trainer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")


def tokenize(row):
    return tokenizer(row["text"], padding="longest", max_length=512, truncation=True)


Trainer(model, args, train_dataset=dataset.map(tokenize)).train()
