# about: A second pass sets the balance anew: advice only.
import torch
import torch.nn.functional as F
from torch import nn


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.gate = nn.Linear(width, 8)
        self.wide = nn.Linear(width, width)
        self.balance = 0.0

    def forward(self, x, scale=1.0):
        shares = self.gate(x).softmax(-1)
        self.balance = shares.mean()
        return x + scale * self.wide(x)


class Decoder(nn.Module):
    def __init__(self, words=50304, width=1024, depth=24):
        super().__init__()
        self.table = nn.Embedding(words, width)
        self.layers = nn.ModuleList([Layer(width) for _ in range(depth)])
        self.head = nn.Linear(width, words, bias=False)

    def forward(self, ids):
        hidden = self.table(ids)
        for layer in self.layers:
            hidden = layer(hidden, scale=0.5)
        return self.head(hidden)


net = Decoder().to("cuda")  # expect: MEM301
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4)
for ids, targets in loader:
    loss = F.cross_entropy(net(ids).flatten(0, 1), targets.flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
