import torch
import torch.nn.functional as F
from torch import nn


class Writer(nn.Module):
    def __init__(self, words=50304, width=768):
        super().__init__()
        self.parts = nn.ModuleDict(
            dict(
                table=nn.Embedding(words, width),
                layers=nn.ModuleList(nn.TransformerEncoderLayer(width, 12) for _ in range(12)),
            )
        )

    def forward(self, ids, targets):
        hidden = self.parts.table(ids)
        for layer in self.parts.layers:
            hidden = layer(hidden)
        logits = hidden @ self.parts.table.weight.t()
        return F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))  # expect: MEM201


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(32_000, 1024)
        self.layers = nn.TransformerEncoder(nn.TransformerEncoderLayer(1024, 16), 24)

    def forward(self, ids):
        return F.linear(self.layers(self.table(ids)), self.table.weight)


writer, reader = Writer().cuda(), Reader().cuda()
optimizer = torch.optim.AdamW([*writer.parameters(), *reader.parameters()])
for ids in loader:
    ids = ids.cuda()
    loss = writer(ids[:, :-1], ids[:, 1:])
    logits = reader(ids[:, :-1])
    loss = loss + F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())  # expect: MEM201
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
