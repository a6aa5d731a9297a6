# about: Their share of right words is asked of the pass that gets the labels.
import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
model.train()
for batch in loader:
    outputs = model(**batch, use_cache=False)  # expect: MEM201
    right = (outputs.logits[:, :-1].argmax(-1) == batch["labels"][:, 1:]).float().mean()
    outputs.loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(right.item())
