# about: The optimizer gets the base with the module that holds it.
import torch
from torch import nn
from transformers import AutoModel


class Head(nn.Module):
    def __init__(self, base):
        super().__init__()
        self.base = base
        self.score = nn.Linear(1024, 1)

    def forward(self, ids):
        return self.score(self.base(ids).last_hidden_state[:, -1])


model = Head(AutoModel.from_pretrained("Qwen/Qwen3-0.6B"))
optimizer = torch.optim.AdamW(model.parameters())
model.train()
for ids, labels in loader:
    loss = nn.functional.binary_cross_entropy_with_logits(model(ids), labels)
    loss.backward()
    optimizer.step()
model.eval()
