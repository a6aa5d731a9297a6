# about: `eval()` and the forward pass are in different functions.
import torch


def mean_loss(model, loader):
    total = 0.0
    for batch in loader:
        total += model(**batch).loss.item()  # expect: MEM703
    return total / len(loader)


model.eval()
print(mean_loss(model, loader))
