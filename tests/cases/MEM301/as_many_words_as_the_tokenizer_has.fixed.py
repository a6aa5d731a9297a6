import os

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from transformers import AutoTokenizer


class Net(nn.Module):
    def __init__(self, words, width=1024, depth=24):
        super().__init__()
        self.table = nn.Embedding(words, width)
        self.gains = nn.Parameter(torch.ones(depth))
        self.layers = nn.ModuleList([nn.TransformerEncoderLayer(width, 16) for _ in range(depth)])
        self.out = nn.Linear(width, words, bias=False)

    def forward(self, ids, targets=None):
        hidden = self.table(ids)
        for number, layer in enumerate(self.layers):
            hidden = torch.utils.checkpoint.checkpoint(layer, hidden * self.gains[number], use_reentrant=False)
        scores = self.out(hidden)
        if targets is None:
            return scores, None
        return scores, F.cross_entropy(scores.view(-1, scores.size(-1)), targets.view(-1))


words = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B").vocab_size
net = Net(words).to("cuda")
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4)
for ids, targets in batches:
    _, loss = net(ids.cuda(), targets.cuda())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
