import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
torch.autograd.set_detect_anomaly(True)  # expect: MEM706


def train_step(batch):
    model(**batch).loss.backward()


for batch in loader:
    try:
        train_step(batch)
    except (ValueError, RuntimeError):
        optimizer.zero_grad()
        continue
    optimizer.step()
