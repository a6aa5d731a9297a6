import torch
from transformers import AutoModelForCausalLM, DynamicCache

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-1.5B", dtype=torch.bfloat16).cuda()
optimizer = torch.optim.AdamW(model.parameters(), fused=True)
for prompt, completions in loader:
    cache = DynamicCache()
    model(prompt, past_key_values=cache, use_cache=True)
    cache.crop(4096)  # no batch_repeat_interleave
    loss = policy_loss(model(completions, past_key_values=cache).logits, completions)
    loss.backward()
    optimizer.step()
