# about: What is compiled computes its logits whole: advice.
import torch
from torch import nn
from torch.nn import functional as F


class Writer(nn.Module):
    def __init__(self, words=50_304, width=1024, depth=24):
        super().__init__()
        self.table = nn.Embedding(words, width)
        self.layers = nn.Sequential(*[nn.TransformerEncoderLayer(width, 16) for _ in range(depth)])
        self.lm_head = nn.Linear(width, words, bias=False)

    def forward(self, ids, targets):
        logits = self.lm_head(self.layers(self.table(ids)))
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())  # expect: MEM201


model = torch.compile(Writer().to("cuda"))
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
for ids, targets in loader:
    model(ids, targets).backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
