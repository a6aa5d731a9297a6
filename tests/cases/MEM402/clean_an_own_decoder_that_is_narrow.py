# about: A toy of all words: its hidden states are 32 numbers wide.
import torch
from torch import nn
from torch.nn import functional as F


class Toy(nn.Module):
    def __init__(self, words=50257, width=32):
        super().__init__()
        self.table = nn.Embedding(words, width)
        self.head = nn.Linear(width, words)

    def forward(self, ids, targets):
        logits = self.head(self.table(ids))
        return F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))


toy = Toy().cuda()
optimizer = torch.optim.AdamW(toy.parameters())
for ids, targets in loader:
    loss = toy(ids, targets)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
