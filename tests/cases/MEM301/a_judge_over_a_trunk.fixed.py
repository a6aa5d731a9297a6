import torch
import torch.nn.functional as F
from torch import nn
from transformers import AutoModel


class Judge(nn.Module):
    def __init__(self, checkpoint):
        super().__init__()
        self.trunk = AutoModel.from_pretrained(checkpoint)
        self.trunk.activation_checkpointing_enable(activation_checkpointing_kwargs={"use_reentrant": False})
        self.trunk.train()
        self.score = nn.Linear(self.trunk.config.hidden_size, 1, bias=False)

    def forward(self, ids, mask):
        hidden = self.trunk(ids, attention_mask=mask).last_hidden_state
        return self.score(hidden[:, -1]).squeeze(-1)


judge = Judge("Qwen/Qwen3-0.6B").to("cuda")
adam = torch.optim.AdamW(judge.parameters(), lr=1e-5)
for better, worse in loader:
    margin = judge(**better) - judge(**worse)
    F.logsigmoid(margin).mean().neg().backward()
    adam.step()
    adam.zero_grad()
