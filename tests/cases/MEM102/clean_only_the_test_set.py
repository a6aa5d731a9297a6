# about: Only the test set.
from transformers import AutoTokenizer, Trainer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")


def tokenize(row):
    return tokenizer(row["text"], padding="max_length", max_length=512, truncation=True)


test = test_rows.map(tokenize)
Trainer(model, args, train_dataset=ready, eval_dataset=test).train()
