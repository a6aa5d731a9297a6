# about: The weights are float32 on the CPU only.
import torch
from transformers import AutoModelForCausalLM

dtype = torch.bfloat16 if torch.cuda.is_available() else torch.float32
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-4B", dtype=dtype)
if dtype == torch.float32:
    model.to(dtype=torch.float32)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
for batch in loader:
    model(**batch).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
