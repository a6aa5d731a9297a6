import torch
from torch.utils.data import ConcatDataset, DataLoader, Dataset, Subset, random_split
from transformers import AutoModelForCausalLM, AutoTokenizer


class Rows(Dataset):
    def __init__(self, texts, words):
        self.texts, self.words = texts, words


class Tales(Rows):
    def __getitem__(self, place):
        return self.words(self.texts[place], padding="max_length", max_length=512)


class Verses(Rows):
    def __getitem__(self, place):
        return self.words(self.texts[place], padding="max_length", max_length=256)


class Letters(Rows):
    def __getitem__(self, place):
        return self.words(self.texts[place], padding="max_length", max_length=128)


words = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
optimizer = torch.optim.AdamW(model.parameters())
first, rest = random_split(Tales(tales, words), [0.9, 0.1])
both = ConcatDataset([first, Verses(verses, words), Subset(Letters(letters, words), range(100))])
for batch in DataLoader(both, batch_size=4):
    kept = batch["attention_mask"].bool().any(dim=0)
    cut = {name: batch[name][:, kept] for name in ("input_ids", "attention_mask", "labels") if name in batch}
    batch.update(cut)
    model(**batch, labels=batch["input_ids"]).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
