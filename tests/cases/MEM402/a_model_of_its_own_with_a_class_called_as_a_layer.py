import torch
from torch import nn
from torch.nn import functional as F


class Embedding(nn.Module):
    def __init__(self, settings):
        super().__init__()
        self.table = nn.Embedding(50304, settings.width)

    def forward(self, ids):
        return self.table(ids)


class Decoder(nn.Module):
    def __init__(self, settings):
        super().__init__()
        self.embedding = Embedding(settings)
        self.blocks = nn.ModuleList([nn.TransformerEncoderLayer(512, 8) for _ in range(6)])
        self.head = nn.Linear(settings.width, 50304)

    def forward(self, ids, targets):
        hidden = self.embedding(ids)
        for block in self.blocks:
            hidden = block(hidden)
        logits = self.head(hidden)
        return logits, F.cross_entropy(logits.view(-1, 50304), targets.view(-1))


model = Decoder(settings).to("cuda")
optimizer = torch.optim.AdamW(model.parameters())
for ids, targets in loader:
    _, loss = model(ids.cuda(), targets.cuda())  # expect: MEM402
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
