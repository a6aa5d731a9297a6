# about: the mapped function hands its tokens to a helper that cuts them
from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")


def first(ids, limit):
    return ids[:limit]


def tokenize(row):
    ids = tokenizer(row["text"])["input_ids"]
    return {"input_ids": first(ids, 2048)}


train = load_dataset("imdb", split="train").map(tokenize)
Trainer(model, args, train_dataset=train).train()
