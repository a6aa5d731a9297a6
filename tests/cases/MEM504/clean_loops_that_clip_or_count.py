# about: Clipping needs all gradients at once, and so does a step after several batches.
import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("mistralai/Mistral-7B-v0.3", dtype=torch.bfloat16)
model.cuda().train()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
for number, batch in enumerate(rows):
    loss = model(**batch.to("cuda")).loss
    loss.backward()
    if number % every == 0:
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
