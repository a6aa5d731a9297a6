# about: The one optimizer of a loop that trains one float32 model.
import torch
from torch.optim import AdamW
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("meta-llama/Llama-3.1-8B", dtype=torch.float32)
model.train()
optimizer = AdamW(model.parameters(), lr=1e-5, weight_decay=0.01)  # expect: MEM501
for batch in loader:
    loss = model(**batch).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
