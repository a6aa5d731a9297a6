# about: one kernel off, another attention, a kernel around evaluation, off in a function
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from transformers import AutoModelForCausalLM

torch.backends.cuda.enable_flash_sdp(False)
torch.backends.cuda.enable_mem_efficient_sdp(True)
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").train()
optimizer = torch.optim.AdamW(model.parameters())
for batch in loader:
    with sdpa_kernel([SDPBackend.MATH, SDPBackend.EFFICIENT_ATTENTION]):
        loss = model(**batch).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH):
        print(model(**batch).loss)


def exactly():
    torch.backends.cuda.enable_mem_efficient_sdp(False)
