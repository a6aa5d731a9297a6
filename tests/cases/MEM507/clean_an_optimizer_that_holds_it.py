# about: What stands in its place steps a share of the weights, and gathers the others.
import torch
from torch import distributed
from transformers import AutoModelForCausalLM


class Shares:
    def __init__(self, inner):
        self.inner = inner
        self.rank = distributed.get_rank()

    def zero_grad(self):
        self.inner.zero_grad()

    def step(self, closure=None):
        for number, one in enumerate(self.inner.param_groups[0]["params"]):
            if number % distributed.get_world_size() != self.rank:
                one.grad = None
        self.inner.step(closure=closure)


model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-7B", dtype=torch.bfloat16).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
optimizer = Shares(optimizer)
for batch in loader:
    model(**batch).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
