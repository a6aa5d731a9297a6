import torch
from transformers import AutoModelForCausalLM


@torch.no_grad()
def encode(model, prompt):
    return model(input_ids=prompt, use_cache=True).past_key_values


def step(model, prompt, completion):
    cache = encode(model, prompt)
    logits = model(input_ids=completion, past_key_values=cache).logits  # expect: MEM606
    loss = policy_loss(logits, completion)
    loss.backward()


model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
for prompt, completion in loader:
    step(model, prompt, completion)
