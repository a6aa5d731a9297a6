# about: Nobody knows how many batches make a step.
import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("mistralai/Mistral-7B-v0.3", dtype=torch.bfloat16)
model.cuda().train()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
for number, batch in enumerate(rows):
    model(**batch.to("cuda")).loss.backward()
    if (number + 1) % every == 0:
        optimizer.step()
        optimizer.zero_grad()
