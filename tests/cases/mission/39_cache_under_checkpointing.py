# expect: MEM607

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-1.5B-Instruct")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-1.5B-Instruct", dtype=torch.bfloat16)
model.gradient_checkpointing_enable()
model.train()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6)
G = 8

for batch in loader:
    prompt_out = model(batch["prompt_ids"], use_cache=True)
    out = model(batch["completion_ids"], past_key_values=prompt_out.past_key_values)
    logps = out.logits.log_softmax(-1).gather(-1, batch["targets"].unsqueeze(-1)).squeeze(-1)
    loss = -(logps.sum(-1) * batch["advantages"]).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
