import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn


class Share(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        rows = out_features // dist.get_world_size()
        self.weight = nn.Parameter(torch.empty(rows, in_features))

    def forward(self, hidden):
        return F.linear(hidden, self.weight)


class Loss(nn.Linear):
    def forward(self, hidden, targets):
        total = 0.0
        for part, wanted in zip(hidden.chunk(16), targets.chunk(16)):
            total = total + F.cross_entropy(F.linear(part, self.weight), wanted, reduction="sum")
        return total / targets.numel()


class Writer(nn.Module):
    def __init__(self, words=128_256, width=1024):
        super().__init__()
        self.table = nn.Embedding(words, width)
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(width, 16) for _ in range(24))
        self.head = Loss(width, words)

    def forward(self, ids, targets):
        hidden = self.table(ids)
        for layer in self.layers:
            hidden = layer(hidden)
        return self.head(hidden.flatten(0, 1), targets.flatten())


class Part(Writer):
    def __init__(self, words=128_256, width=1024):
        super().__init__()
        self.share = Share(width, words)

    def forward(self, ids, targets):
        hidden = self.table(ids)
        for layer in self.layers:
            hidden = layer(hidden)
        return self.share(hidden)


model = Writer().cuda()
optimizer = torch.optim.AdamW(model.parameters())
for ids, targets in loader:
    loss = model(ids.cuda(), targets.cuda())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()

part = Part().cuda()
optimizer = torch.optim.AdamW(part.parameters())
for ids, targets in loader:
    share = part(ids.cuda(), targets.cuda())
    loss = across_ranks(share, targets.cuda())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
