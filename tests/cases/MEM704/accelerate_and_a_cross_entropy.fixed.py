import torch.nn.functional as F
from accelerate import Accelerator
from transformers import AutoModelForCausalLM

accelerator = Accelerator()
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
for epoch in range(3):
    for ids, labels in loader:
        logits = model(ids).logits
        loss = F.cross_entropy(logits.view(-1, 1000), labels.view(-1))
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
