import torch
from transformers import AutoModelForCausalLM


class Coach:
    def __init__(self, path):
        self.net = AutoModelForCausalLM.from_pretrained(path)

    def prepare(self):
        self.optimizer = torch.optim.AdamW(self.net.parameters())

    def work(self, batch):
        self.net(**batch).loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()


def run(coach, batches):
    for batch in batches:
        coach.work(batch)


first = Coach("Qwen/Qwen3-0.6B")
first.prepare()
run(first, batches)
second = Coach("Qwen/Qwen3-1.7B")
schools.enroll(second)
run(second, batches)
