# about: Pairs of a data set are no group that the loop draws.
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-1.5B-Instruct")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-1.5B-Instruct", dtype=torch.bfloat16)

for batch in loader:
    prompt_ids = batch["prompt_ids"].repeat_interleave(2, dim=0)
    rows = torch.cat([prompt_ids, batch["answers"]], dim=1)
    enc = tokenizer(batch["prompt"], return_tensors="pt", padding=True)
    logits = model(input_ids=rows, use_cache=False).logits[:, :-1]
    logps = torch.log_softmax(logits, dim=-1).gather(-1, rows[:, 1:].unsqueeze(-1)).squeeze(-1)
    loss = -(logps.sum(-1) * advantages(rows)).mean()
    loss.backward()
