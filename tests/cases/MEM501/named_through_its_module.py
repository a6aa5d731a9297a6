# about: The optimizer's class is named through its module, so that no import of it goes.
import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("meta-llama/Llama-3.1-8B", dtype=torch.float32)
model.train()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)  # expect: MEM501
for batch in loader:
    loss = model(**batch).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
