from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F


@dataclass
class Sizes:
    words: int = 50304
    width: int = 768


class Writer(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.parts = nn.ModuleDict({"table": nn.Embedding(sizes.words, sizes.width)})
        self.out = nn.Linear(sizes.width, sizes.words, bias=False)

    def forward(self, ids, targets=None):
        states = self.parts.table(ids)
        if targets is None:
            return self.out(states[:, [-1], :]), None
        logits = self.out(states)
        return logits, F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))


writer = torch.compile(Writer(Sizes()).to("cuda"))
optimizer = torch.optim.AdamW(writer.parameters())
for ids, targets in loader:
    everything, loss = writer(ids, targets)
    del everything
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
