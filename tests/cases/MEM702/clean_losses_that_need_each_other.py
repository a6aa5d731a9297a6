# about: all are needed for one: a preference, a softmax over the group, a threshold by the mean
import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-1.5B", dtype=torch.bfloat16).cuda()
optimizer = torch.optim.AdamW(model.parameters())

for group in loader:
    scores = []
    for part in group.split(1):
        scores.append(-model(part, labels=part).loss)
    loss = -torch.log_softmax(torch.stack(scores), 0)[0]
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()

for chosen, rejected in pairs:
    both = []
    for ids in (chosen, rejected):
        both.append(model(ids, labels=ids).loss)
    torch.nn.functional.softplus(both[0] - both[1]).backward()
    optimizer.step()
    optimizer.zero_grad()
