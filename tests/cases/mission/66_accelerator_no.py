# expect: MEM402

import torch
from accelerate import Accelerator
from transformers import AutoModelForCausalLM

accelerator = Accelerator(mixed_precision="no")
model = AutoModelForCausalLM.from_pretrained("meta-llama/Llama-3.1-8B", dtype=torch.float32)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for batch in loader:
    loss = model(**batch, use_cache=False).loss
    accelerator.backward(loss)
    optimizer.step()
    optimizer.zero_grad()
