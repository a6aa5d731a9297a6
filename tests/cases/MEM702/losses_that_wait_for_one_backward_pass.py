# about: a list of losses or log-probabilities, stacked or joined, whose mean runs backward
import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-1.5B", dtype=torch.bfloat16).cuda()
optimizer = torch.optim.AdamW(model.parameters())

for group in loader:
    losses = []
    for part in group.split(2):
        losses.append(model(part, labels=part).loss)  # expect: MEM702 waste
    loss = torch.stack(losses).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()

for rows, gains in pairs:
    parts = []
    for start in range(0, len(rows), 4):
        ids = rows[start : start + 4].cuda()
        shares = model(ids).logits[:, :-1].log_softmax(-1)
        parts.append(shares.gather(-1, ids[:, 1:, None]).squeeze(-1).sum(-1))  # expect: MEM702 waste
    (-torch.cat(parts).mean()).backward()
    optimizer.step()
    optimizer.zero_grad()
