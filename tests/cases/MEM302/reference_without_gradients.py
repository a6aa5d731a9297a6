# about: Without gradients only the cache keeps the keys and values.
import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
reference = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
for batch in loader:
    with torch.no_grad():
        target = reference(**batch).logits  # expect: MEM302
    distance(model(**batch).logits, target).backward()
