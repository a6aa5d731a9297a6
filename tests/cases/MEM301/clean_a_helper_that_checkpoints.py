import torch
from accelerate import Accelerator
from transformers import AutoModelForCausalLM


def prepared(model):
    model.gradient_checkpointing_enable()
    return model


accelerator = Accelerator()
student = prepared(AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", dtype=torch.bfloat16))
optimizer = torch.optim.AdamW(student.parameters(), lr=1e-5)
student, optimizer, loader = accelerator.prepare(student, optimizer, loader)
student.train()
for batch in loader:
    loss = student(**batch, use_cache=False).loss
    accelerator.backward(loss)
    optimizer.step()
    optimizer.zero_grad()
