import torch
import torch.nn.functional as F
from torch import nn


class Writer(nn.Module):
    def __init__(self, words=50257, width=1024):
        super().__init__()
        self.table = nn.Embedding(words, width)
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(width, 16) for _ in range(24))
        self.head = nn.Linear(width, words, bias=False)

    def forward(self, ids, targets):
        hidden = self.table(ids)
        for layer in self.layers:
            hidden = torch.utils.checkpoint.checkpoint(layer, hidden)
        return F.cross_entropy(self.head(hidden).flatten(0, 1), targets.flatten())


model = Writer().cuda()
optimizer = torch.optim.AdamW(model.parameters())
for ids, targets in loader:
    model(ids.cuda(), targets.cuda()).backward()
    optimizer.step()
    optimizer.zero_grad()
