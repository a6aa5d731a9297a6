import copy

import torch
from transformers import AutoModelForCausalLM, DynamicCache

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
for prompt, completions in loader:
    cache = DynamicCache()
    with torch.no_grad():
        model(input_ids=prompt, past_key_values=cache, use_cache=True)
    for completion in completions:
        outputs = model(input_ids=completion, past_key_values=cache)  # expect: MEM606
        policy_loss(outputs.logits, completion).backward()
    with torch.inference_mode():
        prompt_outputs = model(input_ids=prompt, use_cache=True)
    shared = copy.deepcopy(prompt_outputs.past_key_values)
    logits = model(input_ids=completions, past_key_values=shared).logits  # expect: MEM606
    policy_loss(logits, completions).backward()
