# data: text,label:int
import torch
from accelerate import Accelerator
from datasets import load_dataset
from torch.utils.data import DataLoader
from transformers import AutoModelForSequenceClassification, AutoTokenizer, DataCollatorWithPadding


class Finetuner:
    def __init__(self, name, lr=1e-3):
        self.accelerator = Accelerator()
        self.tokenizer = AutoTokenizer.from_pretrained(name)
        model = AutoModelForSequenceClassification.from_pretrained(name, num_labels=2)
        data = load_dataset("imdb", split="train").map(
            lambda rows: self.tokenizer(rows["text"], truncation=True, max_length=64),
            batched=True,
            remove_columns=["text"],
        )
        loader = DataLoader(
            data, batch_size=8, collate_fn=DataCollatorWithPadding(self.tokenizer)
        )
        optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
        self.model, self.optimizer, self.loader = self.accelerator.prepare(
            model, optimizer, loader
        )
        self.running_loss = 0.0

    def fit(self):
        self.model.train()
        for batch in self.loader:
            outputs = self.model(**batch)
            self.accelerator.backward(outputs.loss)
            self.optimizer.step()
            self.optimizer.zero_grad()
            self.running_loss += outputs.loss
        return self.running_loss / len(self.loader)


print("mean loss", Finetuner("distilbert-base-uncased").fit())
