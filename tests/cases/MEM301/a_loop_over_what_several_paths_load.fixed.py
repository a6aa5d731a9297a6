import torch
from accelerate import Accelerator
from transformers import AutoConfig, AutoModelForCausalLM

accelerator = Accelerator(mixed_precision="bf16")
if begins:
    net = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained("Qwen/Qwen3-0.6B"))
    net.activation_checkpointing_enable(activation_checkpointing_kwargs={"use_reentrant": False})
else:
    net = AutoModelForCausalLM.from_pretrained("last")
    net.activation_checkpointing_enable(activation_checkpointing_kwargs={"use_reentrant": False})
net.train()
optimizer = torch.optim.AdamW(net.parameters())
net, optimizer, batches = accelerator.prepare(net, optimizer, batches)
accelerator.register_for_checkpointing(state)
for batch in batches:
    accelerator.backward(net(**batch, use_cache=False).loss)
    optimizer.step()
    optimizer.zero_grad()
