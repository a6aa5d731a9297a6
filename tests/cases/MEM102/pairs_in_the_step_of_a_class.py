import torch
from torch.utils.data import DataLoader
from transformers import AutoModelForSequenceClassification, AutoTokenizer


class Rewards:
    def __init__(self, name):
        self.words = AutoTokenizer.from_pretrained(name)
        self.scorer = AutoModelForSequenceClassification.from_pretrained(name, num_labels=1).cuda()

    def fit(self, rows, length):
        optimizer = torch.optim.AdamW(self.scorer.parameters(), lr=1e-5)
        for pair in DataLoader(rows, batch_size=8):
            good = self.words(pair["good"], padding="max_length", max_length=length, return_tensors="pt")  # expect: MEM102
            bad = self.words(pair["bad"], padding="max_length", max_length=length, return_tensors="pt")  # expect: MEM102
            gap = self.scorer(**good.to("cuda")).logits - self.scorer(**bad.to("cuda")).logits
            torch.nn.functional.softplus(-gap).mean().backward()
            optimizer.step()
            optimizer.zero_grad()


Rewards("Qwen/Qwen2.5-1.5B").fit(rows, 1024)
