import torch
from transformers import AutoModelForCausalLM

net = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-1.7B").to(torch.bfloat16)
net.to(dtype=torch.bfloat16)
net.train()
torch.manual_seed(1)
torch.cuda.manual_seed_all(1)
device = "cpu"
stepper = torch.optim.AdamW(net.parameters(), lr=3e-6)
for rows in loader:
    net(**rows.to(device)).loss.backward()
    stepper.step()
    stepper.zero_grad()
