# about: Its layers are told their dtype.
import torch
from torch import nn
from torch.nn import functional as F


class Decoder(nn.Module):
    def __init__(self, kind, words=50257, width=512):
        super().__init__()
        self.table = nn.Embedding(words, width, dtype=kind)
        self.head = nn.Linear(width, words, bias=False, dtype=kind)

    def forward(self, ids, targets):
        logits = self.head(self.table(ids))
        return F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))


decoder = Decoder(getattr(torch, settings["kind"])).cuda()
optimizer = torch.optim.AdamW(decoder.parameters(), lr=3e-4)
for ids, targets in loader:
    loss = decoder(ids, targets)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
