import torch
from transformers import AutoModelForCausalLM

# no cuda device here, nor accelerate or fsdp: the weights stay where they are loaded
net = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-1.7B", dtype=torch.bfloat16)
net.train()
stepper = torch.optim.AdamW(net.parameters(), lr=3e-6)
for rows in loader:
    net(**rows).loss.backward()
    stepper.step()
    stepper.zero_grad()
    print("device: cuda is not used")
