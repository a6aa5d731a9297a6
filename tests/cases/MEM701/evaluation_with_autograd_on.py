import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").cuda()
model.eval()
total = 0
for batch in loader:
    outputs = model(**batch)
    total += outputs.loss  # expect: MEM701
print(total / len(loader))
