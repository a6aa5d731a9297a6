# about: micro-batches whose losses wait for one backward pass: a sum that is begun anew, scaled, in a function
import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-1.5B", dtype=torch.bfloat16).cuda()
optimizer = torch.optim.AdamW(model.parameters())

for group in loader:
    total = 0.0
    for part in group.split(2):
        total = total + model(part, labels=part).loss / 4  # expect: MEM701 waste
    total.backward()
    optimizer.step()
    optimizer.zero_grad()


def step(groups):
    whole = torch.zeros((), device="cuda")
    for rows, shares in groups:
        out = model(rows.cuda())
        whole += torch.nn.functional.cross_entropy(out.logits[:, -1], shares.cuda())  # expect: MEM701 waste
    loss = whole / len(groups)
    (loss * 0.5).backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss.item()


for groups in batches:
    step(groups)
