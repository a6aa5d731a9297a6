import torch
from torch import nn
from torch.nn import functional as F


class Decoder(nn.Module):
    def __init__(self, words=50257, width=512):
        super().__init__()
        self.table = nn.Embedding(words, width)
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(12))
        self.head = nn.Linear(width, words, bias=False)

    def forward(self, ids, targets):
        states = self.table(ids)
        for layer in self.layers:
            states = states + layer(states)
        logits = self.head(states)
        return F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))


decoder = Decoder().cuda()
optimizer = torch.optim.AdamW(decoder.parameters(), lr=3e-4)
for ids, targets in loader:
    loss = decoder(ids, targets)  # expect: MEM402
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
