import torch
import torch.nn.functional as F
from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-1.5B-Instruct")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-1.5B-Instruct", dtype=torch.bfloat16)
model.gradient_checkpointing_enable()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6)
G = 8

for rows in loader:
    logits = model(rows, use_cache=False).logits[:, :-1]
    logps = -F.cross_entropy(logits.transpose(1, 2), rows[:, 1:], reduction="none")  # expect: MEM204
    loss = -(logps.sum(-1) * advantages(rows)).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
