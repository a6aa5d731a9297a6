# about: The forward pass is in a function that returns the loss and the outputs.
import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
optimizer = torch.optim.AdamW(model.parameters())


def step(model, batch):
    outputs = model(**batch)  # expect: MEM201
    return outputs.loss, outputs


for batch in loader:
    loss, outputs = step(model, batch)
    loss.backward()
    optimizer.step()
