import torch
from transformers import AutoModelForCausalLM


class Fitter:
    def __init__(self, name):
        self.net = AutoModelForCausalLM.from_pretrained(name, dtype=torch.bfloat16).cuda()
        self.net.gradient_checkpointing_enable()
        self.optimizer = torch.optim.AdamW(self.net.parameters(), lr=1e-5)

    def fit(self, loader):
        self.net.train()
        for batch in loader:
            self.net(**batch, use_cache=False).loss.backward()
            self.optimizer.step()
            self.optimizer.zero_grad()


Fitter("Qwen/Qwen3-0.6B").fit(loader)
