import torch
from transformers import AutoModelForCausalLM
from memlint_runtime.losses import defer_logits

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").cuda()
defer_logits(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
model.train()
for batch in loader:
    outputs = model(**batch, use_cache=False)
    right = (outputs.logits[:, :-1].argmax(-1) == batch["labels"][:, 1:]).float().mean()
    outputs.loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(right.item())
