# data: text,label:int
import torch
from datasets import load_dataset
from torch.utils.data import DataLoader
from transformers import AutoModelForSequenceClassification, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("roberta-base")
model = AutoModelForSequenceClassification.from_pretrained("roberta-base", num_labels=2).cuda()


def collate(rows):
    batch = tokenizer([row["text"] for row in rows], padding=True, return_tensors="pt")
    batch["labels"] = torch.tensor([row["label"] for row in rows])
    return batch


class History:
    def __init__(self):
        self.losses = []


history = History()
data = load_dataset("glue", "sst2", split="train")
loader = DataLoader(data.select(range(24)), batch_size=4, collate_fn=collate)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for epoch in range(2):
    model.train()
    for batch in loader:
        optimizer.zero_grad()
        loss = model(**batch.to("cuda")).loss
        loss.backward()
        optimizer.step()
        history.losses.append(loss)
print("mean", sum(history.losses).item() / len(history.losses))
