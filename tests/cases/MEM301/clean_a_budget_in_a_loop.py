# about: The compiler recomputes as much as the budget asks for.
import torch
from torch._functorch import config
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").to("cuda").train()
optimizer = torch.optim.AdamW(model.parameters())
config.activation_memory_budget = 0.3
step = torch.compile(model)
for batch in loader:
    model(**batch).loss.backward()
    optimizer.step()
