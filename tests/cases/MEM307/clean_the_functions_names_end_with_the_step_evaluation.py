# about: The function's names end with the step; evaluation is no training loop.
import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")


def step(batch):
    outputs = model(**batch)
    return outputs.loss


for batch in loader:
    loss = step(batch)
    loss.backward()
with torch.no_grad():
    for batch in loader:
        outputs = model(**batch)
