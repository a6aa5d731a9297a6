# about: What is handed over is no text, so that the branch that loads it is not taken.
import torch
from transformers import AutoModelForCausalLM


class Learner:
    def __init__(self, model, device):
        if isinstance(model, str):
            model = AutoModelForCausalLM.from_pretrained(model)
        self.model = model.to(device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-6)

    def learn(self, loader):
        self.model.train()
        for batch in loader:
            self.model(**batch).loss.backward()
            self.optimizer.step()
            self.optimizer.zero_grad()


model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")  # expect: MEM301
Learner(model, "cuda").learn(loader)
