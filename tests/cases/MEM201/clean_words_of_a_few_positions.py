import torch
import torch.nn.functional as F
from torch import nn


class Writer(nn.Module):
    def __init__(self, words=128_256, width=1024):
        super().__init__()
        self.table = nn.Embedding(words, width)
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(width, 16) for _ in range(24))

    def forward(self, ids, targets):
        hidden, total = self.table(ids), 0.0
        for layer in self.layers:
            hidden = layer(hidden)
        for part, wanted in zip(hidden.flatten(0, 1).split(1024), targets.flatten().split(1024)):
            total = total + self.of_part(part, wanted)
        return total / targets.numel()

    def of_part(self, part, wanted):
        return F.cross_entropy(part @ self.table.weight.T, wanted, reduction="sum")


model = Writer().cuda()
optimizer = torch.optim.AdamW(model.parameters())
for ids in loader:
    model(ids[:, :-1].cuda(), ids[:, 1:].cuda()).backward()
    optimizer.step()
    optimizer.zero_grad()
