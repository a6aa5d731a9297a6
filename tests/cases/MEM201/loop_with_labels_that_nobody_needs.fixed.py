import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
model.train()
for batch in loader:
    logits = model(batch["input_ids"], use_cache=False).logits
    loss = torch.nn.functional.mse_loss(logits[:, -1, 5], batch["grade"])
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
