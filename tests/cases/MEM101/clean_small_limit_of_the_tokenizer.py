# about: The tokenizer's limit is the model's, and small.
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, Trainer

tokenizer = AutoTokenizer.from_pretrained("google-t5/t5-small")


def tokenize(row):
    return tokenizer(row["text"], truncation=True)


model = AutoModelForSeq2SeqLM.from_pretrained("google-t5/t5-small")
Trainer(model, args, train_dataset=dataset.map(tokenize)).train()
