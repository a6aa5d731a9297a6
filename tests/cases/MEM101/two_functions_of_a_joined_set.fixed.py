from datasets import concatenate_datasets
from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")


def tokenize(row):
    return tokenizer(row["text"], truncation=True, max_length=1024)


def tokenize_others(row):
    return tokenizer(row["text"], truncation=True, max_length=1024)


train = dataset.map(tokenize)
train_others = others.map(tokenize_others)
train = concatenate_datasets([train, train_others])
Trainer(AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B"), args, train_dataset=train).train()
