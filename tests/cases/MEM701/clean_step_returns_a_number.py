import torch


def train_step(batch):
    loss = model(**batch).loss
    loss.backward()
    return loss.item()


total = 0.0
for batch in loader:
    total += train_step(batch)
