import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
for prompt, completion in loader:
    cache = model(input_ids=prompt, use_cache=True).past_key_values
    logits = model(input_ids=completion, past_key_values=cache).logits
    with torch.no_grad():
        old = model(input_ids=prompt, use_cache=True).past_key_values
        before = model(input_ids=completion, past_key_values=old).logits
    loss = policy_loss(logits, before)
    loss.backward()
