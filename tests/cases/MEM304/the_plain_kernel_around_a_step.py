import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").train()
optimizer = torch.optim.AdamW(model.parameters())
for batch in loader:
    with sdpa_kernel([SDPBackend.MATH]):  # expect: MEM304
        loss = model(**batch).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
