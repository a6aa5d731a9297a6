import torch
import torch.nn.functional as F
from torch import nn


class Rounded(nn.Linear):
    def forward(self, hidden):
        scale = self.weight.abs().mean()
        rounded = self.weight + ((self.weight / scale).round() * scale - self.weight).detach()
        return F.linear(hidden, rounded, self.bias)


class Stored(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.register_buffer("levels", torch.zeros(out_features, in_features, dtype=torch.int8))
        self.scale = nn.Parameter(torch.ones(out_features, 1))

    def unpacked(self):
        return self.levels * self.scale

    def forward(self, hidden):
        return F.linear(hidden, self.unpacked())


class Writer(nn.Module):
    def __init__(self, head, words=50257, width=768):
        super().__init__()
        self.table = nn.Embedding(words, width)
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(width, 12) for _ in range(12))
        self.head = Rounded(width, words) if head == "rounded" else Stored(width, words)

    def forward(self, ids, targets):
        hidden = self.table(ids)
        for layer in self.layers:
            hidden = layer(hidden)
        logits = self.head(hidden)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())  # expect: MEM201


model = Writer("rounded").cuda()
optimizer = torch.optim.AdamW(model.parameters())
for ids in loader:
    model(ids[:, :-1].cuda(), ids[:, 1:].cuda()).backward()
    optimizer.step()
    optimizer.zero_grad()
