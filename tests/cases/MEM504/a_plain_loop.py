# about: A loop of one process whose Adam steps all weights each turn.
import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("mistralai/Mistral-7B-v0.3", dtype=torch.bfloat16)
model.cuda().train()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)  # expect: MEM504
for batch in rows:
    loss = model(**batch.to("cuda")).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
