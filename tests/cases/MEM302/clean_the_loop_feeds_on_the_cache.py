# about: The loop feeds on the cache.
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
for chunk in chunks:
    out = model(chunk, past_key_values=cache)
    cache = out.past_key_values
    out.loss.backward()
