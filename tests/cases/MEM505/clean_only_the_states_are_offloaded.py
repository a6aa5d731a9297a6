import sys

import torch
from torchao.optim import CPUOffloadOptimizer

first = CPUOffloadOptimizer(model.parameters(), torch.optim.AdamW, offload_gradients=False)
second = CPUOffloadOptimizer(model.parameters(), torch.optim.AdamW)
third = CPUOffloadOptimizer(
    model.parameters(), torch.optim.AdamW, offload_gradients=len(sys.argv) > 1
)
for number, rows in enumerate(loader):
    (model(**rows).loss / 4).backward()
    if number % 4 == 3:
        first.step()
        second.step()
        third.step()
