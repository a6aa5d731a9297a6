import torch
from torch.utils.data import DataLoader, Dataset, Subset
from transformers import AutoModelForCausalLM, AutoTokenizer


class Rows(Dataset):
    def __init__(self, texts, words):
        self.texts, self.words = texts, words

    def __getitem__(self, place):
        return self.words(self.texts[place], padding="max_length", max_length=512)


class Joins:
    def __init__(self, words):
        self.words = words

    def __call__(self, texts):
        return self.words(texts, padding="max_length", max_length=512)


words = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
optimizer = torch.optim.AdamW(model.parameters())
for batch in loader:
    model(**batch, labels=batch["input_ids"]).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
model.eval()
with torch.no_grad():
    for batch in DataLoader(Subset(Rows(texts, words), range(9)), batch_size=4):
        print(model(**batch).logits)
    for batch in DataLoader(texts, batch_size=4, collate_fn=Joins(words)):
        print(model(**batch).logits)
