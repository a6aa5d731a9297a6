import torch
from torch import nn
from transformers import AutoModel


class Judge(nn.Module):
    def __init__(self, checkpoint):
        super().__init__()
        self.trunk = AutoModel.from_pretrained(checkpoint)
        self.score = nn.Linear(self.trunk.config.hidden_size, 1)

    def forward(self, ids, mask):
        with torch.no_grad():
            hidden = self.trunk(ids, attention_mask=mask).last_hidden_state
        return self.score(hidden[:, -1]).squeeze(-1)


judge = Judge("Qwen/Qwen3-0.6B").to("cuda")
adam = torch.optim.AdamW(judge.score.parameters(), lr=1e-5)
for rows, marks in loader:
    (judge(**rows) - marks).pow(2).mean().backward()
    adam.step()
    adam.zero_grad()
