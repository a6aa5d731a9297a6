import torch
from transformers import AutoModelForCausalLM

frozen = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
for prompt, completion in loader:
    with torch.no_grad():
        cache = frozen(input_ids=prompt, use_cache=True).past_key_values
    logits = model(input_ids=completion, past_key_values=cache).logits
    loss = policy_loss(logits, completion)
    loss.backward()
