import torch
import torch.nn.functional as F
from torch import nn


class Writer(nn.Module):
    def __init__(self, words=50257, width=1024):
        super().__init__()
        self.table = nn.Embedding(words, width)
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(width, 16) for _ in range(24))
        self.head = nn.Linear(width, words, bias=False)

    def forward(self, ids, targets=None):
        hidden = self.table(ids)
        for layer in self.layers:
            hidden = layer(hidden)
        logits = self.head(hidden)
        if targets is None:
            return logits, None
        return logits, F.cross_entropy(logits.flatten(0, 1), targets.flatten())


net = Writer().cuda()
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4)


def run(ids, targets):
    logits, loss = net(ids, targets)
    return (logits, loss * 0.5) if weighs else (logits, loss)


for ids, targets in batches:
    logits, loss = run(ids.cuda(), targets.cuda())
    del logits
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
