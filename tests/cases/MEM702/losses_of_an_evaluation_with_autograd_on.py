import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").to("cuda")
model.eval()
losses = []
for batch in loader:
    losses.append(model(**batch).loss)  # expect: MEM702
print(torch.stack(losses).mean())
