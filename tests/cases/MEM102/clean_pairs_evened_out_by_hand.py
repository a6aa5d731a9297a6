import torch
from torch.utils.data import DataLoader, Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer


class Pairs(Dataset):
    def __init__(self, pairs, words):
        self.pairs, self.words = pairs, words

    def __getitem__(self, place):
        good, bad = (self.words(text)["input_ids"] for text in self.pairs[place])
        longest = max(len(good), len(bad))
        good = good + [0] * (longest - len(good))
        bad = bad + [0] * (longest - len(bad))
        return torch.tensor([good, bad])


def collate(rows):
    longest = max(row.size(1) for row in rows)
    return torch.cat([torch.nn.functional.pad(row, (0, longest - row.size(1))) for row in rows])


words = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
optimizer = torch.optim.AdamW(model.parameters())
for ids in DataLoader(Pairs(pairs, words), batch_size=4, collate_fn=collate):
    model(ids, labels=ids).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
