import torch
from transformers import AutoModelForCausalLM


class Job:
    def __init__(self):
        self.model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
        self.total = 0.0
        self.sums = {"loss": 0.0}

    def run(self, loader, optimizer):
        average = 0.0
        for batch in loader:
            loss = self.model(**batch).loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            self.total += loss  # expect: MEM701
            self.sums["loss"] += loss  # expect: MEM701
            average = 0.9 * average + 0.1 * loss  # expect: MEM701
        return average


Job().run(loader, optimizer)
