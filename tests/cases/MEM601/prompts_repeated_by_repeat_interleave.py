import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-1.5B-Instruct")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-1.5B-Instruct", dtype=torch.bfloat16)
model.gradient_checkpointing_enable()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6)
G = 8

for batch in loader:
    enc = tokenizer(batch["prompt"], return_tensors="pt", padding=True)
    ids = enc.input_ids.repeat_interleave(G, dim=0)
    with torch.no_grad():
        rows = model.generate(ids, do_sample=True, max_new_tokens=256)
    logits = model(input_ids=rows, use_cache=False).logits[:, :-1]  # expect: MEM601
    logps = torch.log_softmax(logits, dim=-1).gather(-1, rows[:, 1:].unsqueeze(-1)).squeeze(-1)
    loss = -(logps.sum(-1) * advantages(rows)).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
