import torch


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    return [model(**batch).loss.item() for batch in loader]
