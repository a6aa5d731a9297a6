import torch
from torch import nn


def train(model, loader, optimizer, criterion, scaler):
    total_loss = 0
    for inputs, targets in loader:
        optimizer.zero_grad()
        loss = criterion(model(inputs), targets)
        scaler.scale(loss / 2).backward()
        scaler.step(optimizer)
        scaler.update()
        total_loss += (loss * len(inputs)).detach()
    return total_loss / len(loader)
