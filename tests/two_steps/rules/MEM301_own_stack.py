"""A decoder of the script's own, whose layers are one stack, with dropout."""

import torch
import torch.nn.functional as F
from torch import nn


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, 4, batch_first=True)
        self.wide = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.dropout = nn.Dropout(0.1)

    def forward(self, x, mask=None):
        h = self.norm(x)
        x = x + self.attention(h, h, h, attn_mask=mask, need_weights=False)[0]
        return x + self.dropout(self.wide(x))


class Decoder(nn.Module):
    def __init__(self, words=32000, width=32, depth=4):
        super().__init__()
        self.table = nn.Embedding(words, width)
        self.stack = nn.Sequential(*[Layer(width) for _ in range(depth)])
        self.head = nn.Linear(width, words, bias=False)

    def forward(self, ids):
        hidden = self.table(ids)
        hidden = self.stack(hidden)
        return self.head(hidden)


torch.manual_seed(0)
model = Decoder().to("cuda")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
model.train()
for _ in range(4):
    ids = torch.randint(0, 32000, (2, 17)).to("cuda")
    loss = F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(f"{loss.item():.7f}")
model.eval()
with torch.no_grad():
    ids = torch.arange(8)[None].to("cuda")
    print(f"{model(ids).sum().item():.5f}")
