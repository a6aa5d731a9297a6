# about: Narrowed after the loop, to be saved.
import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-1.7B", dtype=torch.bfloat16)
model.float()  # expect: MEM401
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
for batch in loader:
    with torch.autocast("cuda", torch.bfloat16):
        loss = model(**batch).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
model.bfloat16()
model.save_pretrained("out")
