# about: a second pass of a layer would add its loss once more.
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.gate = nn.Linear(size, 8)
        self.mix = nn.Linear(size, size)

    def forward(self, x, losses):
        losses.append(self.gate(x).logsumexp(-1).mean())
        return x + self.mix(x)


class Net(nn.Module):
    def __init__(self, vocabulary=50304, size=1024):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, size)
        self.blocks = nn.ModuleList(Block(size) for _ in range(24))
        self.out = nn.Linear(size, vocabulary)

    def forward(self, ids):
        losses = []
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x, losses)
        return self.out(x), sum(losses)


net = Net().cuda()  # expect: MEM301
adam = torch.optim.AdamW(net.parameters())
for ids, wanted in loader:
    scores, extra = net(ids)
    (nn.functional.cross_entropy(scores.flatten(0, 1), wanted.flatten()) + extra).backward()
    adam.step()
    adam.zero_grad()
