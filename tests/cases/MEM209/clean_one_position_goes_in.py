import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
cache = None
with torch.no_grad():
    for _ in range(64):
        outputs = model(input_ids=token, past_key_values=cache, use_cache=True)
        cache = outputs.past_key_values
        token = outputs.logits[:, -1:].argmax(-1)
