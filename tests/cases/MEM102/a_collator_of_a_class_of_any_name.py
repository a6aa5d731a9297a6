import torch
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, AutoTokenizer


class Joins:
    def __init__(self, words):
        self.words = words

    def __call__(self, texts):
        return self.words(texts, padding="max_length", max_length=512)  # expect: MEM102


words = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
optimizer = torch.optim.AdamW(model.parameters())
for batch in DataLoader(texts, batch_size=4, collate_fn=Joins(words)):
    model(**batch, labels=batch["input_ids"]).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
