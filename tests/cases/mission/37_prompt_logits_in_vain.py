# expect: MEM209

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-1.5B-Instruct")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-1.5B-Instruct", dtype=torch.bfloat16)
model.gradient_checkpointing_enable()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6)
G = 8

for batch in loader:
    prompt_length = batch["prompt_ids"].shape[1]
    rows = torch.cat([batch["prompt_ids"], batch["completion_ids"]], dim=1)
    logits = model(rows, use_cache=False).logits[:, prompt_length - 1 : -1]
    logps = logits.log_softmax(-1)
    logps = logps.gather(-1, rows[:, prompt_length:].unsqueeze(-1)).squeeze(-1)
    loss = -(logps.sum(-1) * batch["advantages"]).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
