import torch
from transformers import AutoModelForCausalLM
from memlint_runtime.losses import head_logits

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B").cuda()
optimizer = torch.optim.AdamW(model.parameters())
model.train()
for batch in loader:
    hidden = model.model(batch["input_ids"], attention_mask=batch["attention_mask"])[0]
    logits = head_logits(model.lm_head, hidden).float()
    shifted = logits[:, :-1].reshape(-1, logits.size(-1))
    targets = batch["labels"][:, 1:].reshape(-1)
    loss = torch.nn.functional.cross_entropy(shifted, targets)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
