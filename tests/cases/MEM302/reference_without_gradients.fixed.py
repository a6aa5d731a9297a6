import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
reference = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
for batch in loader:
    with torch.no_grad():
        target = reference(use_cache=False, **batch).logits
    distance(model(**batch).logits, target).backward()
