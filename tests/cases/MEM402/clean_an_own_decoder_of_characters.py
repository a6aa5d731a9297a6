# about: What little there is to save is not said of a model of 65 characters.
import torch
from torch import nn
from torch.nn import functional as F


class Speller(nn.Module):
    def __init__(self, letters=65, width=64):
        super().__init__()
        self.table = nn.Embedding(letters, width)
        self.head = nn.Linear(width, letters)

    def forward(self, ids, targets):
        logits = self.head(self.table(ids))
        return F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))


speller = Speller().cuda()
optimizer = torch.optim.AdamW(speller.parameters())
for ids, targets in loader:
    loss = speller(ids, targets)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
