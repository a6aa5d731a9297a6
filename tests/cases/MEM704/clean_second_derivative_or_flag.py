import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
for batch in loader:
    loss = model(**batch).loss
    loss.backward(retain_graph=True)
    norms = torch.autograd.grad(loss, list(model.parameters()))
