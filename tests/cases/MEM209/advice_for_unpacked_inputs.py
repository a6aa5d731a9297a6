import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
with torch.no_grad():
    for inputs in loader:
        print(model(**inputs).logits[:, -1, :].topk(5))  # expect: MEM209
