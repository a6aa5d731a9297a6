import torch
from transformers import AutoModelForCausalLM

network = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").cuda()  # expect: MEM301
*others, student = torch.optim.AdamW(network.parameters()), 3, network
for batch in loader:
    student(**batch).loss.backward()
    others[0].step()
    others[0].zero_grad()
