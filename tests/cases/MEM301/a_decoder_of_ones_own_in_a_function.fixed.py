import torch
import torch.nn.functional as F
from torch import nn


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.attention = nn.MultiheadAttention(width, 16)
        self.wide = nn.Linear(width, width)

    def forward(self, x):
        return x + self.wide(self.attention(x, x, x)[0])


class Decoder(nn.Module):
    def __init__(self, words=50304, width=1024, depth=24):
        super().__init__()
        self.table = nn.Embedding(words, width)
        self.layers = nn.ModuleList(Layer(width) for _ in range(depth))
        self.head = nn.Linear(width, words, bias=False)

    def forward(self, ids, targets=None):
        hidden = self.table(ids)
        for layer in self.layers:
            hidden = torch.utils.checkpoint.checkpoint(layer, hidden, use_reentrant=False)
        logits = self.head(hidden)
        loss = None
        if targets is not None:
            loss = F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))
        return logits, loss



def main():
    model = Decoder(words=100_277)
    model.to("cuda")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for turn in range(1000):
        ids, targets = batch_of(turn)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(ids, targets)[1]
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


main()
