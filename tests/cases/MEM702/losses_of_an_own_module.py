import torch


def train(model, loader, optimizer, criterion):
    losses, history = [], {"loss": []}
    for inputs, targets in loader:
        optimizer.zero_grad()
        loss = criterion(model(inputs), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss)  # expect: MEM702
        history["loss"].append(loss.cpu())  # expect: MEM702
    return losses, history
