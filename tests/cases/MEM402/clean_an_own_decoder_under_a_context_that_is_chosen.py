# about: Autocast is chosen where there is a GPU that has it.
import contextlib

import torch
from torch import nn
from torch.nn import functional as F


class Decoder(nn.Module):
    def __init__(self, words=50257, width=512):
        super().__init__()
        self.table = nn.Embedding(words, width)
        self.head = nn.Linear(width, words, bias=False)

    def forward(self, ids, targets):
        logits = self.head(self.table(ids))
        return F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))


device = "cuda" if torch.cuda.is_available() else "cpu"
around = torch.amp.autocast(device) if device == "cuda" else contextlib.nullcontext()
decoder = Decoder().to(device)
optimizer = torch.optim.AdamW(decoder.parameters(), lr=3e-4)
for ids, targets in loader:
    with around:
        loss = decoder(ids, targets)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
