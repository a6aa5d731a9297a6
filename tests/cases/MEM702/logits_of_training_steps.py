import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("gpt2").cuda()
optimizer = torch.optim.AdamW(model.parameters())
seen = []
for batch in loader:
    out = model(**batch)
    out.loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    seen.append(out.logits)  # expect: MEM702
