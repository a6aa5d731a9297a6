# about: The loss is computed where the logits are: of 16 bits alone it would be a rough one.
import torch
import torch.nn.functional as F
from transformers import AutoModelForCausalLM


class Fitter:
    def __init__(self, name):
        self.lm = AutoModelForCausalLM.from_pretrained(name, dtype=torch.float32).cuda()
        self.optimizer = torch.optim.AdamW(self.lm.parameters(), lr=1e-5)

    def fit(self, loader):
        for rows, targets in loader:
            self.optimizer.zero_grad()
            logits = self.lm(rows, use_cache=False).logits  # expect: MEM402
            loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
            loss.backward()
            self.optimizer.step()


Fitter("gpt2-xl").fit(loader)
