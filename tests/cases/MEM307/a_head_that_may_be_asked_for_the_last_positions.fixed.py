import torch
from torch import nn
from torch.nn import functional as F


class Reader(nn.Module):
    def __init__(self, width=512, words=32000):
        super().__init__()
        self.table = nn.Embedding(words, width)
        self.mix = nn.TransformerEncoderLayer(width, 8)
        self.head = nn.Linear(width, words)

    def forward(self, ids, kept=0):
        last = slice(-kept, None) if isinstance(kept, int) else kept
        hidden = self.mix(self.table(ids))
        return self.head(hidden[:, last, :])


reader = Reader().cuda()
optimizer = torch.optim.AdamW(reader.parameters())
for ids, targets in loader:
    scores = reader(ids)
    loss = F.cross_entropy(scores.view(-1, scores.size(-1)), targets.view(-1))
    del scores
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
