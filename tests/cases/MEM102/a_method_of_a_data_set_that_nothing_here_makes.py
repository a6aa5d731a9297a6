import torch
from torch.utils.data import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer, TrainingArguments


class Better(Dataset):
    def __init__(self, pairs, judge, words, limit=224):
        self.pairs, self.judge, self.words, self.limit = pairs, judge, words, limit
        self.rows = []
        self._choose()

    def _choose(self):
        for one, other in self.pairs:
            text = one if self._worth(one) > self._worth(other) else other
            row = self.words(
                text,
                truncation=True,
                padding="max_length",  # expect: MEM102
                max_length=self.limit,
                return_tensors="pt",
            )
            self.rows.append({"input_ids": row["input_ids"][0], "labels": row["input_ids"][0]})

    def _worth(self, text):
        row = self.words(
            text, truncation=True, padding="max_length", max_length=self.limit, return_tensors="pt"
        )
        with torch.no_grad():
            return self.judge(row["input_ids"]).item()

    def __getitem__(self, place):
        return self.rows[place]


class Learner:
    def __init__(self, config):
        self.words = AutoTokenizer.from_pretrained(config["model"])
        self.model = AutoModelForCausalLM.from_pretrained(config["model"])

    def learn(self, pairs, judge):
        rows = Better(pairs, judge, self.words)
        args = TrainingArguments("out", per_device_train_batch_size=8)
        Trainer(self.model, args, train_dataset=rows).train()
