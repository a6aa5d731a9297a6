import torch
from torchao.optim import CPUOffloadOptimizer
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-4B", device_map="cuda")
options = {"lr": 1e-5}
stepper = CPUOffloadOptimizer(
    model.parameters(),
    torch.optim.AdamW,
    offload_gradients=True,  # expect: MEM505
    **options,
)
for number, rows in enumerate(loader):
    (model(**rows).loss / 16).backward()
    if (number + 1) % 16 == 0:
        stepper.step()
        stepper.zero_grad()
