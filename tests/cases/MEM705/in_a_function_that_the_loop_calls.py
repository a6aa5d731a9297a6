import torch


def learn(ids):
    model(ids, labels=ids).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    torch.cuda.empty_cache()  # expect: MEM705


for ids in loader:
    learn(ids)
