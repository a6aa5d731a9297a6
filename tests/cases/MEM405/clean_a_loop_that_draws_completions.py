# about: They are new in every step.
import copy

import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").cuda()
reference = copy.deepcopy(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6)
for batch in loader:
    batch = model.generate(batch["prompt"])
    chosen, rejected = batch["chosen"], batch["rejected"]
    policy = margin(model(chosen, use_cache=False).logits, model(rejected, use_cache=False).logits)
    with torch.no_grad():
        ref = margin(
            reference(chosen, use_cache=False).logits, reference(rejected, use_cache=False).logits
        )
    loss = -torch.nn.functional.logsigmoid(policy - ref).mean()
    loss.backward()
    optimizer.step()
