# about: On the CPU memory of the GPU is none of its concerns.
import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": True})
model.to("cpu")
optimizer = torch.optim.AdamW(model.parameters())
for batch in loader:
    model(**batch).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
model.to("cpu")
