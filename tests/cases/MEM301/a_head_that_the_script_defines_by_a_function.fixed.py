import torch
import torch.nn.functional as F
from torch import nn


class Rows(nn.Module):
    def __init__(self, count, width):
        super().__init__()
        self.rows = nn.Parameter(torch.randn(count, width))

    def forward(self, ids):
        return self.rows[ids]


class Product(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(out_features, in_features))
        nn.init.normal_(self.weight)

    def forward(self, x):
        return F.linear(x, self.weight)


class Writer(nn.Module):
    def __init__(self, words, width=1024, depth=24):
        super().__init__()
        self.table = Rows(words, width)
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(width, 16) for _ in range(depth))
        self.head = Product(in_features=width, out_features=words)

    def forward(self, ids):
        hidden = self.table(ids)
        for layer in self.layers:
            hidden = torch.utils.checkpoint.checkpoint(layer, hidden, use_reentrant=False)
        return self.head(hidden)


model = Writer(50257).to("cuda")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for ids, targets in loader:
    scores = model(ids.cuda())
    F.cross_entropy(scores.flatten(0, 1), targets.cuda().flatten()).backward()
    optimizer.step()
    optimizer.zero_grad()
