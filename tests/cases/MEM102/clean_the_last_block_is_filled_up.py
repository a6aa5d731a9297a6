import torch
from torch.utils.data import DataLoader, Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer

BLOCK = 1024


class Blocks(Dataset):
    def __init__(self, text, words):
        ids = words(text)["input_ids"]
        self.blocks = [ids[i : i + BLOCK] for i in range(0, len(ids), BLOCK)]
        self.blocks[-1] = self.blocks[-1] + [0] * (BLOCK - len(self.blocks[-1]))

    def __getitem__(self, place):
        return torch.tensor(self.blocks[place])


class HeldOut(Dataset):
    def __getitem__(self, place):
        ids = words(held_out[place], truncation=True, max_length=BLOCK)["input_ids"]
        return torch.tensor(ids + [0] * (BLOCK - len(ids)))


words = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
optimizer = torch.optim.AdamW(model.parameters())
for ids in DataLoader(Blocks(text, words), batch_size=4):
    model(ids, labels=ids).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
model.eval()
with torch.no_grad():
    for ids in DataLoader(HeldOut(), batch_size=4):
        print(model(ids, labels=ids).loss.item())
