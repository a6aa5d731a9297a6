import torch
from torch import nn
from transformers import AutoModelForCausalLM
from memlint_runtime import fuse_causal_lm_loss


class Wrapper(nn.Module):
    def __init__(self):
        super().__init__()
        self.lm = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
        fuse_causal_lm_loss(self.lm, fuse_evaluation=True)

    def forward(self, batch):
        return self.lm(input_ids=batch["input_ids"], labels=batch["labels"]).loss


model = Wrapper()
optimizer = torch.optim.AdamW(model.parameters())
for batch in loader:
    model(batch).backward()
    optimizer.step()
