import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
frozen = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
for batch in loader:
    with torch.no_grad():
        target = frozen(use_cache=False, **batch)
    distance(model(**batch).logits, target.logits).backward()
