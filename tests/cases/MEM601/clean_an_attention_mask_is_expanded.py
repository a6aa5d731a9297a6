# about: What is expanded is no prompt, and what is repeated are advantages.
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-1.5B-Instruct")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-1.5B-Instruct", dtype=torch.bfloat16)

for batch in loader:
    enc = tokenizer(batch["prompt"], return_tensors="pt", padding=True)
    mask = make_mask(enc).expand(8, -1)
    weights = batch["advantages"].repeat_interleave(8, dim=0)
    rows = model.generate(**enc, attention_bias=mask * weights)
    logits = model(input_ids=rows, use_cache=False).logits[:, :-1]
    logps = torch.log_softmax(logits, dim=-1).gather(-1, rows[:, 1:].unsqueeze(-1)).squeeze(-1)
    loss = -(logps.sum(-1) * advantages(rows)).mean()
    loss.backward()
