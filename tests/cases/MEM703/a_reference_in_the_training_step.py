# about: Its parameters are in no optimizer, and tokens take no gradient.
import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
ref_model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6)
for ids in loader:
    logps = score(model(ids, use_cache=False).logits, ids)
    reference = score(ref_model(ids, use_cache=False).logits, ids)  # expect: MEM703
    loss = -torch.nn.functional.logsigmoid(logps - reference).mean()
    loss.backward()
    optimizer.step()
