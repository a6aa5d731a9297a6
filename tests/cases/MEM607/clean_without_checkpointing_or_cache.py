import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
model.train()
for prompt, completion in loader:
    cache = model(input_ids=prompt, use_cache=True).past_key_values
    loss = policy_loss(model(input_ids=completion, past_key_values=cache).logits)
    loss.backward()

other = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
other.gradient_checkpointing_enable()
other.train()
for prompt, completion in loader:
    loss = policy_loss(other(input_ids=completion, past_key_values=None).logits)
    loss.backward()
