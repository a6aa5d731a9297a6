# data: text
"""Model and tokenizer come of a helper; evaluation wants the loss alone."""

import torch
from datasets import load_dataset
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, AutoTokenizer, DataCollatorForLanguageModeling


def load(name):
    return AutoModelForCausalLM.from_pretrained(name)


class Fitter:
    def __init__(self, name):
        self.tokenizer = AutoTokenizer.from_pretrained(name)
        self.model = load(name).to("cuda")
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)

    def loader(self):
        rows = load_dataset("roneneldan/TinyStories", split="train").select(range(16))
        rows = rows.map(lambda row: self.tokenizer(row["text"], truncation=True, max_length=64))
        collator = DataCollatorForLanguageModeling(self.tokenizer, mlm=False)
        return DataLoader(rows.remove_columns("text"), 4, collate_fn=collator)

    def fit(self, loader):
        for batch in loader:
            loss = self.model(**batch.to("cuda"), use_cache=False).loss
            loss.backward()
            self.optimizer.step()
            self.optimizer.zero_grad()
            print(f"{loss.item():.7f}")

    @torch.no_grad()
    def measure(self, loader):
        losses = [self.model(**batch.to("cuda")).loss.item() for batch in loader]
        print(f"{sum(losses) / len(losses):.7f}")


fitter = Fitter("Qwen/Qwen2.5-0.5B")
fitter.fit(fitter.loader())
fitter.measure(fitter.loader())
