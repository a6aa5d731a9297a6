# about: Texts are joined and cut into blocks afterwards.
from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")


def tokenize(rows):
    return tokenizer(rows["text"])


def blocks(rows):
    ids = sum(rows["input_ids"], [])
    return {"input_ids": [ids[i : i + 1024] for i in range(0, len(ids), 1024)]}


train = dataset.map(tokenize, batched=True).map(blocks, batched=True)
Trainer(AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B"), args, train_dataset=train).train()
