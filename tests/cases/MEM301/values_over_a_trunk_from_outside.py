import torch
from torch import nn
from transformers import AutoModel


class Value(nn.Module):
    def __init__(self, trunk):
        super().__init__()
        self.trunk = trunk
        self.head = nn.Sequential(nn.Linear(trunk.config.hidden_size, 128), nn.Linear(128, 1))

    def forward(self, **rows):
        return self.head(self.trunk(**rows)[0]).squeeze(-1)


def fit(value, loader):
    adam = torch.optim.AdamW(value.parameters(), lr=1e-5)
    for rows, returns in loader:
        error = (value(**rows) - returns).pow(2).mean()
        error.backward()
        adam.step()
        adam.zero_grad()


fit(Value(AutoModel.from_pretrained("meta-llama/Llama-3.2-1B").cuda()).cuda(), loader)  # expect: MEM301
