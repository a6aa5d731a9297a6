# about: one turn's pass needs another's, the sum goes through more, parts of one pass, a running loss
import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-1.5B", dtype=torch.bfloat16).cuda()
optimizer = torch.optim.AdamW(model.parameters())

for group in loader:
    total = 0.0
    for part in group.split(2):
        total = total + model(part, labels=part).loss
    total = torch.log1p(total)
    total.backward()
    optimizer.step()

for ids in loader:
    cache, summed = None, 0.0
    for chunk in ids.split(64, dim=1):
        out = model(chunk, past_key_values=cache, labels=chunk)
        cache = out.past_key_values
        summed = summed + out.loss
    summed.backward()
    optimizer.step()

for ids in loader:
    out = model(ids, output_hidden_states=True)
    layers = 0.0
    for hidden in out.hidden_states:
        layers = layers + hidden.float().pow(2).mean()
    layers.backward()
    optimizer.step()

for group in loader:
    told = 0.0
    for part in group:
        loss = model(part, labels=part).loss
        loss.backward()
        told = told + loss.detach()
    optimizer.step()
