# about: In training mode checkpointing would drop what is cached.
import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", dtype=torch.bfloat16).cuda()  # expect: MEM301
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
model.train()
for prompt, answer in loader:
    with torch.no_grad():
        cache = model(prompt, use_cache=True).past_key_values
    model(answer, labels=answer, past_key_values=cache).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
