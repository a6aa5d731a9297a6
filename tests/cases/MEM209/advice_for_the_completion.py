import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
for ids, prompt_length, advantages in loader:
    logits = model(input_ids=ids).logits[:, prompt_length - 1 : -1]  # expect: MEM209
    picked = torch.log_softmax(logits, -1).gather(-1, ids[:, prompt_length:].unsqueeze(-1))
    loss = -(picked.squeeze(-1) * advantages).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
