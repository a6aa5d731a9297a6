# about: Nobody can tell in which precision the reference is.
import torch
from transformers import AutoModelForCausalLM

from scoring import load_frozen

policy = AutoModelForCausalLM.from_pretrained(
    "meta-llama/Llama-3.2-1B",
    dtype=torch.float32,  # expect: MEM401
).to("cuda")
frozen = load_frozen()
optimizer = torch.optim.AdamW(policy.parameters())
policy.train()
for batch in loader:
    scores = policy(**batch).logits
    with torch.no_grad():
        anchor = frozen(**batch).logits
    (scores - anchor).square().mean().backward()
    optimizer.step()
