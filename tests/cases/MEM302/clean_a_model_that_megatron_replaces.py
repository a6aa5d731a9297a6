"""Megatron-LM trains a model of its own in the place of the one that is loaded."""

import torch
from accelerate import Accelerator
from accelerate.utils import MegatronLMDummyScheduler
from transformers import AutoModelForCausalLM

accelerator = Accelerator()
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
optimizer = torch.optim.AdamW(model.parameters())
schedule = MegatronLMDummyScheduler(optimizer=optimizer, total_num_steps=100)
model, optimizer, loader, schedule = accelerator.prepare(model, optimizer, loader, schedule)
for batch in loader:
    model.train()
    outputs = model(**batch)
    accelerator.backward(outputs.loss)
    optimizer.step()
    optimizer.zero_grad()
