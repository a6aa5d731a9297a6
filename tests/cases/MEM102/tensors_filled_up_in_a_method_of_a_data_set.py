import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer


class Tales(Dataset):
    def __init__(self, texts, words, length=2048):
        self.texts, self.words, self.length = texts, words, length

    def fit(self, ids):
        return F.pad(ids, (0, self.length - ids.shape[0]), value=0)  # expect: MEM102

    def __getitem__(self, place):
        ids = torch.tensor(self.words.encode(self.texts[place], truncation=True, max_length=2048))
        return {"input_ids": self.fit(ids), "labels": self.fit(ids)}


words = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
optimizer = torch.optim.AdamW(model.parameters())
for batch in DataLoader(Tales(texts, words), batch_size=4):
    model(**batch).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
