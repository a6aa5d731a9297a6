import torch
import torch.nn.functional as F
from torch import nn


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.attention = nn.MultiheadAttention(width, 16)
        self.wide = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        return x + self.wide(self.attention(x, x, x)[0])


class Decoder(nn.Module):
    def __init__(self, words=50304, width=1024, depth=24):
        super().__init__()
        self.table = nn.Embedding(words, width)
        self.stack = nn.Sequential(*[Layer(width) for _ in range(depth)])
        self.head = nn.Linear(width, words, bias=False)

    def forward(self, ids):
        hidden = torch.utils.checkpoint.checkpoint_sequential(self.stack, len(self.stack), self.table(ids), use_reentrant=False)
        return self.head(hidden)


net = Decoder().to("cuda")
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4)
for ids, targets in loader:
    loss = F.cross_entropy(net(ids).flatten(0, 1), targets.flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
