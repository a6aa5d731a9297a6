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
            hidden = layer(hidden)
        logits = self.head(hidden)
        if targets is None:
            return logits, None
        return logits, F.cross_entropy(logits.flatten(0, 1), targets.flatten())


class Fitter:
    def __init__(self, model, settings):
        self.model = model
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
        fill(self, settings)

    def fit(self, loader):
        for ids, targets in loader:
            logits, loss = self.model(ids.cuda(), targets.cuda())
            del logits
            loss.backward()
            self.optimizer.step()
            self.optimizer.zero_grad()


def fill(thing, settings):
    thing.__dict__.update(settings)



def main(batches):
    Fitter(Writer().cuda(), dict(lr=1e-4)).fit(batches)
