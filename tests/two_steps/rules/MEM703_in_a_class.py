# data: text,label:int
import numpy as np
from datasets import load_dataset
from torch.optim import AdamW
from torch.utils.data import DataLoader
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    DataCollatorWithPadding,
    get_scheduler,
)


class Classifier:
    def __init__(self, name):
        self.tokenizer = AutoTokenizer.from_pretrained(name)
        self.model = AutoModelForSequenceClassification.from_pretrained(name, num_labels=2)
        self.optimizer = AdamW(self.model.parameters(), lr=1e-3)
        self.scheduler = get_scheduler("linear", self.optimizer, 0, 16)

    def loader(self, split, shuffle=False):
        data = load_dataset("imdb", split=split).select(range(16))
        data = data.map(lambda row: self.tokenizer(row["text"]), remove_columns=["text"])
        return DataLoader(data, 4, shuffle, collate_fn=DataCollatorWithPadding(self.tokenizer))

    def train_epoch(self, loader):
        self.model.train()
        for batch in loader:
            loss = self.model(**batch).loss
            loss.backward()
            self.optimizer.step()
            self.scheduler.step()
            self.optimizer.zero_grad()
            yield loss.item()

    def validate(self, loader):
        self.model.eval()
        losses, right = [], []
        for batch in loader:
            outputs = self.model(**batch)
            losses.append(outputs.loss.item())
            predicted = outputs.logits.detach().cpu().numpy().argmax(-1)
            right.extend(predicted == batch["labels"].numpy())
        return np.mean(losses), np.mean(right)


classifier = Classifier("bert-base-uncased")
for epoch in range(2):
    print(list(classifier.train_epoch(classifier.loader("train"))))
    loss, accuracy = classifier.validate(classifier.loader("test"))
    print(float(loss), float(accuracy))
