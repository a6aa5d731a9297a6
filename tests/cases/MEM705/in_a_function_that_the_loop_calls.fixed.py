import torch


def learn(ids):
    model(ids, labels=ids).loss.backward()
    optimizer.step()
    optimizer.zero_grad()


for ids in loader:
    learn(ids)
