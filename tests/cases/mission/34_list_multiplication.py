# expect: MEM601 advice

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-1.5B-Instruct")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-1.5B-Instruct", dtype=torch.bfloat16)
model.gradient_checkpointing_enable()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6)
G = 8

for batch in loader:
    prompts = [batch["prompt"]] * G
    enc = tokenizer(prompts, return_tensors="pt", padding=True)
    with torch.no_grad():
        rows = model.generate(**enc, do_sample=True, max_new_tokens=256)
    logits = model(input_ids=rows, use_cache=False).logits[:, :-1]
    logps = torch.log_softmax(logits, dim=-1).gather(-1, rows[:, 1:].unsqueeze(-1)).squeeze(-1)
    loss = -(logps.sum(-1) * advantages(rows)).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
