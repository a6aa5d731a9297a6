import torch


def mean_loss(model, loader):
    total = 0.0
    with torch.no_grad():
        for batch in loader:
            total += model(**batch).loss.item()
    return total / len(loader)


model.eval()
print(mean_loss(model, loader))
