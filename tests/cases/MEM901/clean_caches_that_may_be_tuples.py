# about: asked for first, of an encoder-decoder, by its layers, in three parts
import torch
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-1.5B")
cache = model(prompt).past_key_values
if isinstance(cache, tuple):
    print(cache[0][0].shape)
print([layer.keys.shape for layer in cache.layers], [k.shape for k, _, _ in cache])
other = AutoModelForSeq2SeqLM.from_pretrained("google-t5/t5-small")(prompt, labels=prompt)
print(other.past_key_values[0])
if hasattr(cache, "to_legacy_cache"):
    print(cache.to_legacy_cache())
