from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn
from transformers.modeling_outputs import CausalLMOutput


@dataclass
class Written:
    loss: torch.Tensor
    logits: torch.Tensor


class Writer(nn.Module):
    def __init__(self, words, width=1024):
        super().__init__()
        self.table = nn.Embedding(words, width)
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(width, 16) for _ in range(24))
        self.head = nn.Linear(width, words, bias=False)

    def forward(self, ids, targets):
        hidden = self.table(ids)
        for layer in self.layers:
            hidden = layer(hidden)
        logits = self.head(hidden)
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
        return Written(loss, logits)


class Reader(Writer):
    def forward(self, ids, targets):
        written = super().forward(ids, targets)
        return CausalLMOutput(loss=written.loss, logits=written.logits)


model = Writer(50257).to("cuda")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for ids, targets in loader:
    result = model(ids.cuda(), targets.cuda())
    result.loss.backward()
    del result
    optimizer.step()
    optimizer.zero_grad()

other = Reader(50257).to("cuda")
optimizer = torch.optim.AdamW(other.parameters(), lr=1e-4)
for ids, targets in loader:
    outputs = other(ids.cuda(), targets.cuda())
    outputs.loss.backward()
    del outputs
    optimizer.step()
    optimizer.zero_grad()
