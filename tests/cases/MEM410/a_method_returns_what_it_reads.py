import torch
from transformers import AutoModelForCausalLM


class Coach:
    def __init__(self, rank):
        self.device = torch.device(f"cuda:{rank}")
        self.net = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").to(self.device)
        self.steps = torch.optim.AdamW(self.net.parameters())

    def read_last(self):
        return torch.load("last.pt", map_location=self.device)  # expect: MEM410

    def work(self, batches):
        last = self.read_last()
        self.net.load_state_dict(last["model"])
        self.steps.load_state_dict(last["steps"])
        self.rates = last.get("learning_rates", [])
        for batch in batches:
            self.net(**batch).loss.backward()
            self.steps.step()
            self.steps.zero_grad()


Coach(0).work(batches)
