# about: No log-probability is made of it: it keeps the logits small.
import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").to("cuda")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6)
for batch in loader:
    outputs = model(**batch)
    loss = outputs.loss + 1e-4 * torch.logsumexp(outputs.logits, dim=-1).pow(2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
