import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
model.gradient_checkpointing_enable()
model.train()
for ids in loader:
    with torch.no_grad():
        cache = model(input_ids=ids, use_cache=True).past_key_values
        sampled = model(input_ids=ids[:, -1:], past_key_values=cache).logits
    loss = model(input_ids=ids, labels=ids).loss
    loss.backward()
