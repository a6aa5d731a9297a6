import torch
from transformers import AutoModelForCausalLM

network = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").cuda()
network.activation_checkpointing_enable(activation_checkpointing_kwargs={"use_reentrant": False})
network.train()
*others, student = torch.optim.AdamW(network.parameters()), 3, network
for batch in loader:
    student(**batch).loss.backward()
    others[0].step()
    others[0].zero_grad()
