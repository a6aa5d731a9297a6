import torch
from transformers import AutoModelForCausalLM
from memlint_runtime.losses import defer_logits

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
defer_logits(model)
optimizer = torch.optim.AdamW(model.parameters())

for batch in loader:
    logits = model(batch["input_ids"]).logits
    shifted = logits[:, :-1].contiguous()
    targets = batch["input_ids"][:, 1:].contiguous()
    loss = torch.nn.functional.cross_entropy(shifted.view(-1, shifted.size(-1)), targets.view(-1))
    loss.backward()
    optimizer.step()
