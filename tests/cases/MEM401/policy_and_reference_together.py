# about: Both or neither: their difference starts at 0.
import torch
from transformers import AutoModelForCausalLM

policy = AutoModelForCausalLM.from_pretrained(
    "meta-llama/Llama-3.2-1B",
    dtype=torch.float32,  # expect: MEM401
).to("cuda")
frozen = AutoModelForCausalLM.from_pretrained("meta-llama/Llama-3.2-1B", dtype="float32").to("cuda")
optimizer = torch.optim.AdamW(policy.parameters())
policy.train()
for batch in loader:
    scores = policy(**batch).logits
    with torch.no_grad():
        anchor = frozen(**batch).logits
    (scores - anchor).square().mean().backward()
    optimizer.step()
