# about: A model is loaded in evaluation mode, where nothing is checkpointed and the cache works.
import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
model.gradient_checkpointing_enable()
for prompt, completion in loader:
    cache = model(input_ids=prompt, use_cache=True).past_key_values
    loss = policy_loss(model(input_ids=completion, past_key_values=cache).logits)
    loss.backward()
