# target: transformers=4.44
# about: tuples were taken then
import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-1.5B", torch_dtype=torch.bfloat16)
cache = model(prompt).past_key_values
print(cache[0][0].shape, [keys.shape for keys, values in cache])
