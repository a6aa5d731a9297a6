# about: The dtype of what FSDP gathers is set where it wraps the model.
import torch
from torch.distributed import fsdp
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", dtype=torch.float32).to("cuda")
precision = fsdp.MixedPrecision(param_dtype=torch.bfloat16)
model = fsdp.FullyShardedDataParallel(model, mixed_precision=precision)
optimizer = torch.optim.AdamW(model.parameters())
model.train()
for batch in loader:
    model(**batch).loss.backward()
    optimizer.step()
