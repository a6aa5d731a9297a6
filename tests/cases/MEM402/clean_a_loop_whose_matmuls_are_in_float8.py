"""torchao replaces the linear maps: they multiply in float8, whatever the weights are kept in."""

import torch
from torchao.float8 import convert_to_float8_training
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-7B", dtype=torch.float32).cuda()
convert_to_float8_training(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
for batch in loader:
    loss = model(**batch).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
