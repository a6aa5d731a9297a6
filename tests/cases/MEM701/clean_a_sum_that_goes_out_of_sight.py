import torch
from elsewhere import finish
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
total = grand = 0
for batch in loader:
    loss = model(**batch).loss
    loss.backward(retain_graph=True)
    total += loss
    grand = grand + loss
finish(total, optimizer)
torch.autograd.backward([grand])
