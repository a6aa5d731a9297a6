# about: No loop runs them.
import torch
import torch.nn.functional as F
from torch import nn


class Decoder(nn.Module):
    def __init__(self, words=50304, width=1024):
        super().__init__()
        self.table = nn.Embedding(words, width)
        self.first = nn.Sequential(nn.Linear(width, width), nn.GELU())
        self.second = nn.Sequential(nn.Linear(width, width), nn.GELU())
        self.head = nn.Linear(width, words, bias=False)

    def forward(self, ids):
        return self.head(self.second(self.first(self.table(ids))))


net = Decoder().to("cuda")  # expect: MEM301
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4)
for ids, targets in loader:
    loss = F.cross_entropy(net(ids).flatten(0, 1), targets.flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
