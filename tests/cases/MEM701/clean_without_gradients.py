import torch


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    total = 0
    for batch in loader:
        total += model(**batch).loss
    return total / len(loader)


total = 0.0
for batch in loader:
    loss = model(**batch).loss
    loss.backward()
    with torch.no_grad():
        total += loss
    optimizer.step()
    optimizer.zero_grad()
