# about: a mapped function of another file may cut the rows
from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer

from .rows import keep_the_end

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")


def tokenize(row):
    return tokenizer(row["text"])


train = load_dataset("imdb", split="train").map(tokenize).map(keep_the_end)
Trainer(model, args, train_dataset=train).train()
