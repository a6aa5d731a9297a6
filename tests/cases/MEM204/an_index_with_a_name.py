# about: What is gathered is squeezed, so that the index has one column.
import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", device_map="cuda")
model = torch.compile(model)
for ids, mask in loader:
    logps = model(ids, use_cache=False).logits[:, :-1].log_softmax(dim=-1)  # expect: MEM204
    indices = (mask[:, 1:] * ids[:, 1:]).unsqueeze(2)
    loss = -torch.gather(logps, dim=2, index=indices).squeeze(2).mean()
    loss.backward()
