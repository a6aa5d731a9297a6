# about: The model is called in a module of the script.
import torch
from torch import nn
from transformers import AutoModelForCausalLM


class Wrapper(nn.Module):
    def __init__(self):
        super().__init__()
        self.lm = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")

    def forward(self, batch):
        return self.lm(input_ids=batch["input_ids"], labels=batch["labels"]).loss  # expect: MEM201


model = Wrapper()
optimizer = torch.optim.AdamW(model.parameters())
for batch in loader:
    model(batch).backward()
    optimizer.step()
