# about: Accelerate without mixed precision.
import torch
from accelerate import Accelerator
from transformers import AutoModelForCausalLM, get_scheduler

accelerator = Accelerator(mixed_precision="no")  # planted: MEM402
model = AutoModelForCausalLM.from_pretrained(  # planted: MEM301
    "meta-llama/Llama-3.1-8B", torch_dtype=torch.float32  # planted: MEM401
)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)  # planted: MEM501
scheduler = get_scheduler("cosine", optimizer, 100, 1000)
model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)
for batch in loader:
    loss = model(**batch, use_cache=False).loss  # planted: MEM201
    accelerator.backward(loss)
    optimizer.step()
    scheduler.step()
    optimizer.zero_grad()
