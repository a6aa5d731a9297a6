"""Only a head is trained: what DDP holds twice is as good as nothing."""

import torch
from torch.nn.parallel import DistributedDataParallel


def probe(model, loader, rank):
    model.to(rank)
    for _, weight in model.named_parameters():
        weight.requires_grad = False
    for _, weight in model.head.named_parameters():
        weight.requires_grad = True
    model = DistributedDataParallel(model, device_ids=[rank])
    optimizer = torch.optim.SGD(model.module.head.parameters(), lr=0.1)
    for images, labels in loader:
        torch.nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()
        optimizer.zero_grad()
