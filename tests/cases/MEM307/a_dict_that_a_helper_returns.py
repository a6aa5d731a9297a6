import torch
import torch.nn.functional as F
from torch import nn


class Writer(nn.Module):
    def __init__(self, words, width=1024):
        super().__init__()
        self.table = nn.Embedding(words, width)
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(width, 16) for _ in range(24))
        self.head = nn.Linear(width, words, bias=False)

    def forward(self, ids, targets):
        hidden = self.table(ids)
        for layer in self.layers:
            hidden = layer(hidden)
        logits = self.head(hidden)
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
        return logits, loss


model = Writer(50257).to("cuda")


def run(ids, targets):
    logits, loss = model(ids, targets)
    return dict(loss=loss, logits=logits)


optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for ids, targets in loader:
    kept = run(ids.cuda(), targets.cuda())  # expect: MEM307
    kept["loss"].backward()
    optimizer.step()
    optimizer.zero_grad()
