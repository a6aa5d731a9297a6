# about: The helper gives it no name; who calls the helper does.
import torch
from accelerate import Accelerator
from transformers import AutoModelForCausalLM


def load(name):
    return AutoModelForCausalLM.from_pretrained(name, dtype=torch.bfloat16)  # expect: MEM301


accelerator = Accelerator()
student = load("Qwen/Qwen3-0.6B")
optimizer = torch.optim.AdamW(student.parameters(), lr=1e-5)
student, optimizer, loader = accelerator.prepare(student, optimizer, loader)
student.train()
for batch in loader:
    loss = student(**batch, use_cache=False).loss
    accelerator.backward(loss)
    optimizer.step()
    optimizer.zero_grad()
