import torch


def tidy():
    torch.cuda.empty_cache()


for turn, ids in enumerate(loader):
    model(ids, labels=ids).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if turn % 200 == 0:
        tidy()
