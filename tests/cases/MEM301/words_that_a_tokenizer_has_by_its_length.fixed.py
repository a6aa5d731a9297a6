from transformers import AutoTokenizer
import torch
import torch.nn.functional as F
from torch import nn


class Writer(nn.Module):
    def __init__(self, words=50257, width=1024):
        super().__init__()
        self.table = nn.Embedding(words, width)
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(width, 16) for _ in range(24))
        self.head = nn.Linear(width, words, bias=False)

    def forward(self, ids, targets=None):
        hidden = self.table(ids)
        for layer in self.layers:
            hidden = torch.utils.checkpoint.checkpoint(layer, hidden, use_reentrant=False)
        logits = self.head(hidden)
        if targets is None:
            return logits, None
        return logits, F.cross_entropy(logits.flatten(0, 1), targets.flatten())


tokenizer = AutoTokenizer.from_pretrained("gpt2")
count = len(tokenizer)
net = Writer(count).cuda()
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4)
for ids, targets in batches:
    loss = net(ids.cuda(), targets.cuda())[1]
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
