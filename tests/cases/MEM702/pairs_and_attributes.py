import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").cuda()
rows = []
for step, batch in enumerate(loader):
    outputs = model(**batch)
    outputs.loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    rows.append((step, outputs.loss))  # expect: MEM702
    rows.append({"step": step, "loss": outputs.loss / 4})  # expect: MEM702
