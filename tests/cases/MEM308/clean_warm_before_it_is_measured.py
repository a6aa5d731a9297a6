import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
for size in (128, 256):
    batch = make(size)
    model(**batch)
    torch.cuda.reset_peak_memory_stats()
    model(**batch).loss.backward()
    print(size, torch.cuda.max_memory_allocated())
