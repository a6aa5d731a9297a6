# data: text
"""The model is loaded by a helper, kept in an attribute, and writes samples between its epochs."""

import torch
from datasets import load_dataset
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, AutoTokenizer, DataCollatorForLanguageModeling

NAME = "Qwen/Qwen2.5-0.5B"


def load(name):
    return AutoModelForCausalLM.from_pretrained(name)


class Fitter:
    def __init__(self):
        self.tokenizer = AutoTokenizer.from_pretrained(NAME)
        self.model = load(NAME).to("cuda")
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)

    def loader(self):
        rows = load_dataset("roneneldan/TinyStories", split="train").select(range(8))
        rows = rows.map(lambda row: self.tokenizer(row["text"], truncation=True, max_length=64))
        rows = rows.remove_columns("text")
        return DataLoader(
            rows, 4, collate_fn=DataCollatorForLanguageModeling(self.tokenizer, mlm=False)
        )

    def train(self, loader):
        self.model.train()
        for batch in loader:
            loss = self.model(**batch.to("cuda"), use_cache=False).loss
            loss.backward()
            self.optimizer.step()
            self.optimizer.zero_grad()
            print(f"{loss.item():.7f}")

    def write(self):
        self.model.eval()
        ids = self.tokenizer("Once", return_tensors="pt").input_ids.to("cuda")
        print(self.model.generate(ids, max_new_tokens=8, do_sample=False).sum().item())


fitter = Fitter()
for _ in range(2):
    fitter.train(fitter.loader())
    fitter.write()
