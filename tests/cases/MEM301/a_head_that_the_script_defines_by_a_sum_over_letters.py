import torch
import torch.nn.functional as F
from torch import nn


class Product(nn.Module):
    def __init__(self, entering, leaving):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(leaving, entering))
        nn.init.normal_(self.weight)

    def forward(self, x):
        return torch.einsum("btd,vd->btv", x, self.weight)


class Writer(nn.Module):
    def __init__(self, words, width=1024, depth=24):
        super().__init__()
        self.table = nn.Embedding(words, width)
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(width, 16) for _ in range(depth))
        self.head = Product(width, words)

    def forward(self, ids):
        hidden = self.table(ids)
        for layer in self.layers:
            hidden = layer(hidden)
        return self.head(hidden)


model = Writer(50257).to("cuda")  # expect: MEM301
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for ids, targets in loader:
    scores = model(ids.cuda())
    F.cross_entropy(scores.flatten(0, 1), targets.cuda().flatten()).backward()
    optimizer.step()
    optimizer.zero_grad()
