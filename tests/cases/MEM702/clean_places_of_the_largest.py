# about: No graph leads to places; a scale that is detached is a number.
import torch
import torch.nn.functional as F
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").cuda()
optimizer = torch.optim.AdamW(model.parameters())
picked, sorted_by, hits, scales = [], [], [], []
for ids in loader:
    logits = model(ids).logits
    loss = F.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    picked.append(logits.max(dim=-1)[1])
    sorted_by.append(logits.sort(-1)[1][..., 0])
    hits.append((logits.argmax(-1) == ids).float().mean())
    scales.append(logits.detach().abs().mean())
print(torch.cat(picked), torch.cat(sorted_by), torch.stack(hits), torch.stack(scales))
