# about: Training and evaluation run one helper: it must record gradients.
import torch


def loss_of(model, batch):
    return model(**batch).loss


for batch in loader:
    model.train()
    loss_of(model, batch).backward()
    model.eval()
    print(loss_of(model, batch).item())
