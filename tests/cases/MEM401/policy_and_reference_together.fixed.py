import torch
from transformers import AutoModelForCausalLM

policy = AutoModelForCausalLM.from_pretrained(
    "meta-llama/Llama-3.2-1B",
    dtype=torch.bfloat16,
).to("cuda")
frozen = AutoModelForCausalLM.from_pretrained("meta-llama/Llama-3.2-1B", dtype=torch.bfloat16).to(
    "cuda",
)
optimizer = torch.optim.AdamW(policy.parameters())
policy.train()
for batch in loader:
    scores = policy(**batch).logits
    with torch.no_grad():
        anchor = frozen(**batch).logits
    (scores - anchor).square().mean().backward()
    optimizer.step()
