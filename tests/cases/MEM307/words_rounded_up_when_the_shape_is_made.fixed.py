from dataclasses import dataclass

import lightning
import torch
import torch.nn.functional as F
from torch import nn


def rounded_up(number, unit):
    if number % unit == 0:
        return number
    return number + unit - number % unit


@dataclass
class Shape:
    width: int = 1024
    words: int = 50257
    rows: int | None = None

    def __post_init__(self):
        if self.rows is None:
            self.rows = rounded_up(self.words, 128)

    @classmethod
    def named(cls, name):
        return cls(**SHAPES[name])


SHAPES = {"narrow": {"width": 768}, "wide": {"width": 2048}}


class Net(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.table = nn.Embedding(shape.rows, shape.width)
        self.out = nn.Linear(shape.width, shape.rows, bias=False)

    def forward(self, ids):
        return self.out(self.table(ids))


fabric = lightning.Fabric(precision="bf16-true")
net = Net(Shape.named("wide"))
net, optimizer = fabric.setup(net, torch.optim.AdamW(net.parameters(), lr=1e-4))
for number, (ids, targets) in enumerate(batches):
    with fabric.no_backward_sync(net, enabled=number % 4 != 3):
        scores = net(ids)
        fabric.backward(F.cross_entropy(scores.flatten(0, 1), targets.flatten()) / 4)
    del scores
    if number % 4 == 3:
        optimizer.step()
        optimizer.zero_grad()
